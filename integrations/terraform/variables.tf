variable "files" {
  description = "The folder with the template and its archives, as `make dist` writes it; a release has it beside the module."
  type        = string
  default     = null
}

variable "stack_name" {
  description = "The name of the stack in CloudFormation."
  type        = string
  default     = "burstwatch"

  validation {
    condition     = can(regex("^[A-Za-z][A-Za-z0-9-]{0,127}$", var.stack_name))
    error_message = "stack_name must be a letter, then letters, digits and hyphens, 128 in all at most."
  }
}

variable "tags" {
  description = "Tags of the stack, which CloudFormation passes on to its resources."
  type        = map(string)
  default     = {}
}

variable "bucket" {
  description = "The bucket, in the Region of the provider, into which the module puts the template and its archives."
  type        = string

  validation {
    condition     = can(regex("^([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])$", var.bucket)) && !can(regex("^(.*\\.\\.|([0-9]+\\.){3}[0-9]+$)", var.bucket))
    error_message = "bucket must be the name of a bucket, such as example-tools."
  }
}

variable "prefix" {
  description = "What their keys begin with; empty, or with a slash at its end."
  type        = string
  default     = "burstwatch/"

  validation {
    condition     = can(regex("^(([A-Za-z0-9._-]+/)*)$", var.prefix))
    error_message = "prefix must be empty, or names of letters, digits, '.', '_' and '-', each with a slash after it."
  }
}

variable "name" {
  description = "The name of this deployment; a second one in a Region needs another."
  type        = string
  default     = "burstwatch"

  validation {
    condition     = can(regex("^([A-Za-z][A-Za-z0-9-]{0,39})$", var.name)) && !can(regex("^(deployments$)", var.name))
    error_message = "name must be a letter, then letters, digits and hyphens, 40 in all at most."
  }
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

  validation {
    condition     = can(regex("^(([^@\\s]+@[^@\\s]+)?)$", var.email1))
    error_message = "email1 must be empty or an e-mail address."
  }
}

variable "email2" {
  description = "An address for alerts, which must confirm once; empty: none."
  type        = string
  default     = ""

  validation {
    condition     = can(regex("^(([^@\\s]+@[^@\\s]+)?)$", var.email2))
    error_message = "email2 must be empty or an e-mail address."
  }
}

variable "email3" {
  description = "An address for alerts, which must confirm once; empty: none."
  type        = string
  default     = ""

  validation {
    condition     = can(regex("^(([^@\\s]+@[^@\\s]+)?)$", var.email3))
    error_message = "email3 must be empty or an e-mail address."
  }
}

variable "slack_secret" {
  description = "The name of the secret, in this Region, with the address of a Slack webhook; empty: none."
  type        = string
  default     = ""

  validation {
    condition     = can(regex("^([A-Za-z0-9/_+=.@-]{0,500})$", var.slack_secret))
    error_message = "slack_secret must be the name of a secret: not its ARN, and not the address itself."
  }
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

  validation {
    condition     = can(regex("^([0-9]|[1-8][0-9]|9[0-5])$", tostring(var.lowest_burst_balance)))
    error_message = "lowest_burst_balance must be 0, or a whole number from 1 to 95."
  }
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

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_retention_days)
    error_message = "log_retention_days must be one of 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653."
  }
}

variable "tracing" {
  description = "X-Ray, about $0.30 a month."
  type        = bool
  default     = false
}

variable "architecture" {
  description = "Of the functions; x86_64 if a Region's Lambda has no arm64."
  type        = string
  default     = "arm64"

  validation {
    condition     = contains(["arm64", "x86_64"], var.architecture)
    error_message = "architecture must be one of arm64, x86_64."
  }
}

variable "existing_ledger" {
  description = "The name of the ledger table of an earlier deployment; empty: the stack makes one."
  type        = string
  default     = ""

  validation {
    condition     = can(regex("^(([A-Za-z0-9_.-]{3,255})?)$", var.existing_ledger))
    error_message = "existing_ledger must be empty or the name of a table."
  }
}

variable "permissions_boundary" {
  description = "The ARN of the managed policy that bounds every role; empty: none."
  type        = string
  default     = ""

  validation {
    condition     = can(regex("^((arn:aws[a-z-]*:iam::([0-9]{12}|aws):policy/[\\w+=,.@/-]{1,512})?)$", var.permissions_boundary))
    error_message = "permissions_boundary must be empty or the ARN of a managed policy."
  }
}
