# The budget notifies people. It stops nothing: no agent ends because costs grow. It is of one project, so that rights on this project are
# enough to create it; bootstrap.sh grants them.

resource "google_billing_budget" "project" {
  for_each = toset(var.billing_account == "" ? [] : [var.billing_account])

  billing_account = each.value
  display_name    = "${local.prefix}: control plane"

  budget_filter {
    projects = ["projects/${var.project_number}"]
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
    monitoring_notification_channels = [for c in google_monitoring_notification_channel.email : c.id]
    disable_default_iam_recipients   = false
  }
}
