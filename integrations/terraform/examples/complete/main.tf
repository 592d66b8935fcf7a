# Every kind of resource, alerts in Slack, and flips of the volumes that have the opt-in tag.

provider "aws" {
  region = "eu-central-1"
}

resource "aws_s3_bucket" "tools" {
  bucket_prefix = "burstwatch-"
}

resource "aws_s3_bucket_public_access_block" "tools" {
  bucket                  = aws_s3_bucket.tools.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_secretsmanager_secret" "slack" {
  name = "burstwatch/slack" # put the address of the webhook into it by hand: it is a secret
}

module "burstwatch" {
  source = "../.."

  bucket             = aws_s3_bucket.tools.id
  email1             = "oncall@example.com"
  slack_secret       = aws_secretsmanager_secret.slack.name
  watch_instances    = true
  watch_file_systems = true
  watch_databases    = true
  tags               = { owner = "storage" }
}

# A host that runs ddprobe may report to the watchdog.
resource "aws_iam_policy" "ddprobe" {
  name_prefix = "ddprobe-"
  policy      = module.burstwatch.probe_policy
}
