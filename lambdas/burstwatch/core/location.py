from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsLocation:
    """Where the watched resources are; ``account`` is None if it is not known."""

    region: str
    account: str | None = None

    @property
    def console_host(self) -> str:
        """The host of the AWS console in this region's partition."""
        if self.region.startswith("us-gov-"):
            return "console.amazonaws-us-gov.com"
        if self.region.startswith("cn-"):
            return "console.amazonaws.cn"
        if self.region.startswith("eusc-"):
            return "console.amazonaws-eusc.eu"
        return f"{self.region}.console.aws.amazon.com"

    def instance_url(self, instance_id: str) -> str:
        """The console page of an instance."""
        return (
            f"https://{self.console_host}/ec2/home?region={self.region}"
            f"#InstanceDetails:instanceId={instance_id}"
        )

    def volume_url(self, volume_id: str) -> str:
        """The console page of a volume."""
        return f"https://{self.console_host}/ec2/home?region={self.region}#VolumeDetails:volumeId={volume_id}"

    def file_system_url(self, file_system_id: str) -> str:
        """The console page of an EFS file system."""
        return f"https://{self.console_host}/efs/home?region={self.region}#/file-systems/{file_system_id}"

    def database_url(self, name: str) -> str:
        """The console page of an RDS database."""
        return (
            f"https://{self.console_host}/rds/home?region={self.region}"
            f"#database:id={name};is-cluster=false;tab=monitoring"
        )
