# The template of `make dist`, its archives in a bucket of yours, and a stack made of them.

data "aws_partition" "current" {}
data "aws_region" "current" {}

locals {
  files    = coalesce(var.files, "${path.module}/cloudformation")
  template = "${local.files}/burstwatch.template.json"
  # with the hash of its content, so that a change of it is a change of the stack
  template_key = "${var.prefix}${substr(filesha256(local.template), 0, 16)}-burstwatch.template.json"
}

resource "aws_s3_object" "archive" {
  for_each = fileset(local.files, "burstwatch-*.zip")

  bucket      = var.bucket
  key         = "${var.prefix}${each.value}"
  source      = "${local.files}/${each.value}"
  source_hash = filesha256("${local.files}/${each.value}")

  # those of the version before are needed until the stack is updated, and for its rollback
  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_s3_object" "template" {
  bucket      = var.bucket
  key         = local.template_key
  source      = local.template
  source_hash = filesha256(local.template)

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_cloudformation_stack" "this" {
  name         = var.stack_name
  capabilities = ["CAPABILITY_IAM"]
  tags         = var.tags

  template_url = "https://${var.bucket}.s3.${data.aws_region.current.name}.${data.aws_partition.current.dns_suffix}/${aws_s3_object.template.key}"

  parameters = {
    AssetsBucket        = var.bucket
    AssetsPrefix        = var.prefix
    Name                = var.name
    WatchInstances      = tostring(var.watch_instances)
    WatchFileSystems    = tostring(var.watch_file_systems)
    WatchDatabases      = tostring(var.watch_databases)
    Flips               = tostring(var.flips)
    Schedule            = tostring(var.schedule)
    Email1              = var.email1
    Email2              = var.email2
    Email3              = var.email3
    SlackSecret         = var.slack_secret
    ChatTopic           = tostring(var.chat_topic)
    LowestBurstBalance  = tostring(var.lowest_burst_balance)
    Dashboard           = tostring(var.dashboard)
    LogRetentionDays    = tostring(var.log_retention_days)
    Tracing             = tostring(var.tracing)
    Architecture        = var.architecture
    ExistingLedger      = var.existing_ledger
    PermissionsBoundary = var.permissions_boundary
  }

  depends_on = [aws_s3_object.archive]
}
