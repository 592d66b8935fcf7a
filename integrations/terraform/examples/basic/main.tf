# Alerts by e-mail, and no permission to modify a volume.

provider "aws" {
  region = "eu-central-1"
}

module "burstwatch" {
  source = "../.."

  bucket = "example-tools-eu-central-1"
  email1 = "oncall@example.com"
  flips  = false
}
