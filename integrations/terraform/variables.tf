variable "files" {
  description = "The folder with the template and its archives, as `make dist` writes it; a release has it beside the module."
  type        = string
  default     = null
}

variable "stack_name" {
  description = "The name of the stack in CloudFormation."
  type        = string
  default     = "burstwatch"
}

variable "tags" {
  description = "Tags of the stack, which CloudFormation passes on to its resources."
  type        = map(string)
  default     = {}
}

variable "bucket" {
  description = "The bucket, in the Region of the provider, into which the module puts the template and its archives."
  type        = string
}

variable "prefix" {
  description = "What their keys begin with; empty, or with a slash at its end."
  type        = string
  default     = "burstwatch/"
}

variable "name" {
  description = "The name of this deployment; a second one in a Region needs another."
  type        = string
  default     = "burstwatch"
}

variable "watch_instances" {
  description = "Permit watching EC2 instances; the policy says which kinds are watched."
  type        = bool
  default     = false
}

variable "watch_file_systems" {
  description = "Permit watching EFS file systems; the policy says which kinds are watched."
  type        = bool
  default     = false
}

variable "watch_databases" {
  description = "Permit watching RDS databases; the policy says which kinds are watched."
  type        = bool
  default     = false
}

variable "flips" {
  description = "false: no function and no permission that could modify a volume."
  type        = bool
  default     = true
}

variable "schedule" {
  description = "false: nothing runs by itself."
  type        = bool
  default     = true
}

variable "email1" {
  description = "An address for alerts, which must confirm once; empty: none."
  type        = string
  default     = ""
}

variable "email2" {
  description = "An address for alerts, which must confirm once; empty: none."
  type        = string
  default     = ""
}

variable "email3" {
  description = "An address for alerts, which must confirm once; empty: none."
  type        = string
  default     = ""
}

variable "slack_secret" {
  description = "The name of the secret, in this Region, with the address of a Slack webhook; empty: none."
  type        = string
  default     = ""
}

variable "chat_topic" {
  description = "A second topic, for Amazon Q Developer in chat applications."
  type        = bool
  default     = false
}

variable "lowest_burst_balance" {
  description = "Percent at which CloudWatch's own alarm goes off, $0.10 a month for each volume; 0: no alarm."
  type        = number
  default     = 0
}

variable "dashboard" {
  description = "A dashboard in CloudWatch."
  type        = bool
  default     = true
}

variable "log_retention_days" {
  description = "How long the logs of the functions are kept."
  type        = number
  default     = 30
}

variable "tracing" {
  description = "X-Ray, about $0.30 a month."
  type        = bool
  default     = false
}

variable "architecture" {
  description = "Of the functions; x86_64 where a Region's Lambda has no arm64."
  type        = string
  default     = "arm64"
}

variable "existing_ledger" {
  description = "The name of the ledger table of an earlier deployment; empty: the stack makes one."
  type        = string
  default     = ""
}

variable "permissions_boundary" {
  description = "The ARN of the managed policy that bounds every role; empty: none."
  type        = string
  default     = ""
}
