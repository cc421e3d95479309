locals {
  names    = { for room, _ in var.rooms : room => "${var.environment}-${room}" }
  greeting = templatefile("${path.module}/greeting.txt", { names = values(local.names) })
  range    = cidrsubnet("10.64.0.0/10", 6, 63)
  chosen   = coalesce("", null, "third")
  secret   = base64sha256(uuid())
}

resource "test_house" "this" {
  address = "1 Main St"
}

resource "test_room" "this" {
  for_each = var.rooms

  name  = local.names[each.key]
  house = test_house.this.id
  area  = each.value.size

  dynamic "door" {
    for_each = each.value.doors
    iterator = entry
    content {
      name = entry.value

      dynamic "lock" {
        for_each = toset(["a", "b"])
        content {
          label = "${entry.key}-${lock.value}"
        }
      }
    }
  }

  window {
    glazing = "double"
    count   = 2
  }

  lifecycle {
    ignore_changes = [area]

    precondition {
      condition     = each.value.size < 100
      error_message = "The room ${each.key} is too large."
    }
  }
}

resource "test_painting" "room" {
  for_each = test_room.this

  room    = each.value.name
  door    = each.value.door[0].lock[1].label
  handle  = each.value.door[0].handle
  glazing = [for w in each.value.window : w.glazing]
}

resource "test_key" "spare" {
  count = var.spares

  label = "spare ${count.index}"
}

resource "test_ring" "keys" {
  labels = test_key.spare[*].label
  fits   = test_key.spare[0].id
}

output "counts" {
  value = [length(test_room.this), length(test_key.spare), length("four"), length(toset(["a", "a"]))]
}

output "house" {
  value = test_house.this.id
}
