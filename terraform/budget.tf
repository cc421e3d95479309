# The budget notifies people. It stops nothing: no agent ends because costs grow. Each is of one project, so that rights on this project
# are enough to create it; bootstrap.sh grants them.

resource "google_billing_budget" "project" {
  for_each = var.billing_account == "" ? {} : merge(
    { (var.billing_account) = { title = "control plane", number = var.project_number } },
    { for name in local.separate : name => { title = "cells", number = local.cells_project_number } },
  )

  billing_account = var.billing_account
  display_name    = "${local.prefix}: ${each.value.title}"

  budget_filter {
    projects = ["projects/${each.value.number}"]
  }

  amount {
    specified_amount {
      units = tostring(var.monthly_budget)
    }
  }

  dynamic "threshold_rules" {
    for_each = [0.5, 0.9, 1.0]
    content {
      threshold_percent = threshold_rules.value
    }
  }

  threshold_rules {
    threshold_percent = 1.0
    spend_basis       = "FORECASTED_SPEND"
  }

  all_updates_rule {
    # A budget takes five channels at most.
    monitoring_notification_channels = slice(
      [for c in google_monitoring_notification_channel.email : c.id], 0, min(5, length(google_monitoring_notification_channel.email)),
    )
    disable_default_iam_recipients = false
  }
}
