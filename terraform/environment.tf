# The environment of each service: exactly what functions/cmd/config reads for its binary. A test compares the two.

locals {
  cells = [
    for name, c in var.cells : merge(
      {
        name     = name
        region   = c.region
        cluster  = google_container_cluster.cell[name].name
        endpoint = "https://${google_container_cluster.cell[name].control_plane_endpoints_config[0].dns_endpoint_config[0].endpoint}"
      },
      c.closed ? { closed = true } : {},
      c.image == null ? {} : { image = c.image },
    )
  ]

  common_environment = {
    GOOGLE_CLOUD_PROJECT        = var.project_id
    ENVIRONMENT                 = local.prefix
    FIRESTORE_DATABASE          = local.database
    NUDGE_TOPIC                 = local.topics[local.nudge_topic]
    WEBHOOK_TOPIC               = local.topics[local.webhook_topic]
    SECRET_REGIONS              = join(",", var.secret_regions)
    RATE_LIMIT_FACTOR           = tostring(var.rate_limit_factor)
    LOG_DEBUG                   = tostring(var.debug)
    MAINTENANCE                 = var.maintenance ? "true" : ""
    TRACE_RATIO                 = tostring(var.trace_ratio)
    IDENTITY_ISSUER             = var.identity_issuer
    IDENTITY_AUTHORIZED_PARTIES = join(",", var.identity_authorized_parties)
    AGENT_DOMAIN                = var.agent_domain
    HANDOFF_PUBLIC_KEYS         = var.handoff_public_keys
    CELLS                       = jsonencode(local.cells)

    # What agents run when the catalog of images does not say it.
    PLATFORM_IMAGE    = var.image
    AGENT_IMAGE       = var.agent_image
    AGENT_PORT        = tostring(var.agent_port)
    AGENT_API_PORT    = var.agent_api_port == 0 ? "" : tostring(var.agent_api_port)
    AGENT_HEALTH_PATH = var.agent_health_path
    AGENT_AUTH        = var.agent_auth
    AGENT_REGISTRIES  = join(",", var.agent_registries)

    MAX_FREE_AGENTS                  = tostring(var.max_free_agents)
    SECRET_MANAGER_WRITES_PER_MINUTE = tostring(var.secret_manager_writes_per_minute)
  }

  # The address of the API for its clients.
  base_url = var.domain == "" ? local.urls[local.all_routes] : "https://${var.domain}"

  worker_environment = {
    AGENT_STORAGE_CLASS  = var.agent_storage_class
    AGENT_RESOLVERS      = join(",", var.agent_resolvers)
    GATE_ADDRESS         = var.gate_address
    JWKS_URL             = "${local.base_url}/.well-known/jwks.json"
    ROUTER_NAMESPACE     = local.gateway.namespace
    MONITORING_PROJECT   = local.cells_project
    PUSH_SERVICE_ACCOUNT = local.push_account
  }

  # Answers that clients wait for, such as logs that are followed, take at most 70 % of the requests that an instance serves at the same time.
  # Cloud Run adds an instance where the average of a minute is above 60 %. With a smaller share, an instance that is full of held answers
  # would never get a second one, and further followers would be refused for as long.
  held_answers = { for binary, s in local.sizes : binary => tostring(floor(s.concurrency * 7 / 10)) }

  # The console says to browsers how to sign in, and where people reach support. Services of routes have these variables.
  console_environment = {
    CONSOLE_CLIENT_ID = var.console_client_id
    CONSOLE_SCOPES    = var.console_scopes
    SUPPORT_URL       = var.support_url
  }

  # Clients of the API find out here how to sign in, and what plans include. Services of routes have these variables.
  client_environment = {
    API_BASE_URL   = local.base_url
    BACKUP_FOR_GKE = tostring(var.backup_for_gke)
    CLI_CLIENT_ID  = var.cli_client_id
    CLI_SCOPES     = var.cli_scopes
  }

  # Only services that send clients get this variable.
  clients_environment = { CLIENTS_BUCKET = local.clients_bucket }

  # Only services that handle payments get these variables.
  payments_environment = { APP_URL = var.app_url }

  # An empty value means the same as an absent one, and Cloud Run drops empty ones.
  environments = {
    for service, s in local.services : service => {
      for name, value in merge(
        local.common_environment,
        s.target == "" ? {} : { FUNCTION_TARGET = s.target },
        s.binary == "worker" ? merge(local.worker_environment, { PUSH_AUDIENCE = local.urls[service] }) : merge(
          { MAX_HELD_ANSWERS = local.held_answers[s.binary] }, local.console_environment, local.client_environment,
        ),
        contains(local.needs_of[service], "payments") ? local.payments_environment : {},
        contains(local.needs_of[service], "clients_read") ? local.clients_environment : {},
      ) : name => value if value != ""
    }
  }

  # Secrets, by environment variable; local.secret_versions has their versions. Behind the load balancer, routes have its secret. Only services that authenticate callers have the pepper: whoever has it and may write records can make
  # an API key of any organization.
  secret_environments = {
    for service, s in local.services : service => merge(
      contains([for name in s.members : !contains(["public", "bearer"], try(local.routes[name].access, "public"))], true) ? local.key_environments.pepper : {},
      contains(local.needs_of[service], "webhook_sign") ? local.key_environments.webhooks : {},
      var.domain != "" && s.public ? { EDGE_SECRETS = local.secrets.edge } : {},
      {
        for name, need in local.optional_secrets : name => local.optional_secret_ids[name]
        if contains(var.provided_secrets, name) && contains(local.needs_of[service], need)
      },
    )
  }
}
