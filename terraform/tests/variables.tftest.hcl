# Invalid values are refused at plan time.

mock_provider "google" {}

variables {
  project_id      = "my-project"
  project_number  = "123456789012"
  image           = "us-central1-docker.pkg.dev/my-project/prod/controlplane@sha256:0000000000000000000000000000000000000000000000000000000000000000"
  identity_issuer = "https://issuer.example.com"
  agent_domain    = "agents.example.net"
  agent_image     = "us-central1-docker.pkg.dev/my-project/prod/agent@sha256:1111111111111111111111111111111111111111111111111111111111111111"
}

run "an_image_by_tag" {
  command = plan

  variables {
    image = "us-central1-docker.pkg.dev/my-project/prod/controlplane:latest"
  }

  expect_failures = [var.image]
}

run "an_unknown_topology" {
  command = plan

  variables {
    topology = "mesh"
  }

  expect_failures = [var.topology]
}

run "a_url_as_a_domain" {
  command = plan

  variables {
    domain = "https://api.example.com"
  }

  expect_failures = [var.domain]
}

run "agents_on_the_domain_of_the_api" {
  command = plan

  variables {
    domain = "agents.example.net"
  }

  expect_failures = [var.agent_domain]
}

run "agents_next_to_the_api" {
  command = plan

  variables {
    domain       = "api.example.com"
    agent_domain = "agents.example.com"
  }

  expect_failures = [var.agent_domain]
}

run "two_cells_at_one_place" {
  command = plan

  variables {
    cells = { a1 = { number = 1, region = "us-central1" }, b1 = { number = 1, region = "europe-west4" } }
  }

  expect_failures = [var.cells]
}

run "placeholders_of_no_plan" {
  command = plan

  variables {
    warm_plan = "huge"
  }

  expect_failures = [var.warm_plan]
}

run "an_environment_with_a_hyphen" {
  command = plan

  variables {
    environment = "prod-a"
  }

  expect_failures = [var.environment]
}

run "more_instances_than_the_maximum" {
  command = plan

  variables {
    scaling = { worker = { min_instances = 11 } }
  }

  expect_failures = [google_cloud_run_v2_service.this]
}

run "both_steps_of_a_key_at_the_same_time" {
  command = plan

  variables {
    key_versions  = { pepper = 2 }
    next_keys     = ["pepper"]
    previous_keys = ["pepper"]
  }

  expect_failures = [var.next_keys]
}

run "a_version_before_the_first_one" {
  command = plan

  variables {
    previous_keys = ["webhooks"]
  }

  expect_failures = [var.previous_keys]
}

run "public_keys_of_a_secret_without_a_version" {
  command = plan

  variables {
    handoff_public_keys = "{\"keys\": []}"
  }

  expect_failures = [var.provided_secrets]
}

run "a_key_of_stripe_without_the_secret_of_its_events" {
  command = plan

  variables {
    provided_secrets = ["STRIPE_API_KEY"]
    app_url          = "https://app.example.com/billing"
  }

  expect_failures = [var.provided_secrets]
}

run "a_registry_without_its_slash" {
  command = plan

  variables {
    agent_registries = ["us-docker.pkg.dev/team"]
  }

  expect_failures = [var.agent_registries]
}

run "a_registry_without_a_host" {
  command = plan

  variables {
    agent_registries = ["team/"]
  }

  expect_failures = [var.agent_registries]
}

run "support_by_two_addresses" {
  command = plan

  variables {
    support_url = "mailto:a,b@example.com"
  }

  expect_failures = [var.support_url]
}

run "support_by_an_address_with_a_name" {
  command = plan

  variables {
    support_url = "mailto:support<a@example.com>"
  }

  expect_failures = [var.support_url]
}
