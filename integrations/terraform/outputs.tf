output "stack_id" {
  description = "The ARN of the stack."
  value       = aws_cloudformation_stack.this.id
}

output "alerts_topic" {
  description = "The ARN of the topic to which more people can subscribe."
  value       = aws_cloudformation_stack.this.outputs["AlertsTopic"]
}

output "ledger_table" {
  description = "The name of the ledger's table, which outlives the stack."
  value       = aws_cloudformation_stack.this.outputs["LedgerTable"]
}

output "policy_parameter" {
  description = "The parameter in Parameter Store that holds the deployed policy."
  value       = aws_cloudformation_stack.this.outputs["PolicyParameter"]
}

output "probe_bus" {
  description = "The name of the event bus to which ddprobe reports."
  value       = aws_cloudformation_stack.this.outputs["ProbeBus"]
}

output "probe_policy" {
  description = "The policy, as JSON, for instances that run ddprobe."
  value       = aws_cloudformation_stack.this.outputs["ProbePolicy"]
}

output "outputs" {
  description = "Every output of the stack, by its name in the template."
  value       = aws_cloudformation_stack.this.outputs
}
