# The topics and permissions of deploy/strimzi for a Kafka without Strimzi.
terraform {
  required_version = ">= 1.5"
  required_providers {
    kafka = {
      source  = "Mongey/kafka"
      version = "~> 0.8"
    }
  }
}

variable "bootstrap_servers" {
  type = list(string)
}

variable "principal" {
  type    = string
  default = "User:coversumm-worker"
}

locals {
  # All have the same number of partitions, permanently.
  partitions = 8
  input      = "marketplace.reviews.v1"
  output     = "marketplace.review-summaries.v1"
  facets     = "marketplace.review-facets.v1"
  letters    = "marketplace.reviews.v1.dlq"
  changelog  = "coversumm-worker-entities-changelog"
  compacted  = { "cleanup.policy" = "compact", "max.compaction.lag.ms" = "604800000", "max.message.bytes" = "1001024" }
  topics = {
    (local.input)     = { "cleanup.policy" = "delete", "retention.bytes" = "-1", "retention.ms" = "-1" }
    (local.output)    = local.compacted
    (local.facets)    = local.compacted
    (local.letters)   = { "cleanup.policy" = "delete", "max.message.bytes" = "1001024" }
    (local.changelog) = merge(local.compacted, { "delete.retention.ms" = "2592000000" })
  }
  permissions = [
    { type = "Topic", name = local.input, pattern = "Literal", operation = "Read" },
    { type = "Topic", name = local.input, pattern = "Literal", operation = "DescribeConfigs" },
    { type = "Topic", name = local.output, pattern = "Literal", operation = "Write" },
    { type = "Topic", name = local.output, pattern = "Literal", operation = "DescribeConfigs" },
    { type = "Topic", name = local.facets, pattern = "Literal", operation = "Write" },
    { type = "Topic", name = local.facets, pattern = "Literal", operation = "DescribeConfigs" },
    { type = "Topic", name = local.letters, pattern = "Literal", operation = "Write" },
    { type = "Topic", name = local.letters, pattern = "Literal", operation = "DescribeConfigs" },
    { type = "Topic", name = local.changelog, pattern = "Literal", operation = "Read" },
    { type = "Topic", name = local.changelog, pattern = "Literal", operation = "Write" },
    { type = "Topic", name = local.changelog, pattern = "Literal", operation = "DescribeConfigs" },
    { type = "Group", name = "coversumm-worker", pattern = "Literal", operation = "Read" },
    # The group's name, and that of a worker's pod.
    { type = "TransactionalID", name = "coversumm-worker-", pattern = "Prefixed", operation = "Write" },
  ]
}

provider "kafka" {
  bootstrap_servers = var.bootstrap_servers
}

resource "kafka_topic" "all" {
  for_each           = local.topics
  name               = each.key
  partitions         = local.partitions
  replication_factor = 3
  config             = merge(each.value, { "min.insync.replicas" = "2" })

  lifecycle {
    # The changelog is the state, and the input all history.
    prevent_destroy = true
  }
}

resource "kafka_acl" "all" {
  for_each                     = { for one in local.permissions : join("/", [one.type, one.name, one.operation]) => one }
  resource_type                = each.value.type
  resource_name                = each.value.name
  resource_pattern_type_filter = each.value.pattern
  acl_principal                = var.principal
  acl_host                     = "*"
  acl_operation                = each.value.operation
  acl_permission_type          = "Allow"
}
