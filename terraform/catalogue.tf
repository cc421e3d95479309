# The services to deploy, derived from the generated list of functions. These files name no function.

locals {
  catalogue = jsondecode(file("${path.module}/functions.json"))
  routes    = { for f in local.catalogue.routes : f.name => f }
  workers   = { for f in local.catalogue.workers : f.name => f }
  functions = merge(local.routes, local.workers)
  scheduled = { for name, w in local.workers : name => w if try(w.schedule, "") != "" }

  # The service of all routes exists in every topology. Without a domain it is the API; behind one it answers requests that match no route.
  # It runs the binary that links what all routes need, except those that enter agents' containers: these have their own service in every
  # topology, and need a domain.
  all_routes = "routes"

  # ReconcileAgent runs in the service reconcile-agent, or in the service that the topology puts it in.
  own_service = { for name, f in local.functions : name => lower(replace(name, "/([a-z0-9])([A-Z])/", "$1-$2")) }
  service_of = {
    for name, f in local.functions : name => {
      route  = local.own_service[name]
      group  = f.role
      single = contains(["worker", "exec"], f.role) ? f.role : local.all_routes
    }[var.topology]
  }

  services = merge(
    {
      for service, names in { for name, service in local.service_of : service => name... } : service => {
        role    = local.functions[names[0]].role
        binary  = local.functions[names[0]].role
        target  = var.topology == "route" ? names[0] : ""
        public  = local.functions[names[0]].role != "worker"
        members = names
      } if service != local.all_routes
    },
    {
      (local.all_routes) = {
        role = "accounts", binary = "accounts", target = "", public = true, members = [for name, r in local.routes : name if r.role != "exec"]
      }
    },
  )

  # A service has the rights that its functions need.
  needs_of = { for service, s in local.services : service => distinct(flatten([for name in s.members : local.functions[name].needs])) }

  prefix = var.environment
  names  = { for service, _ in local.services : service => "${local.prefix}-${service}" }

  # Cloud Run derives a service's address from its name, so a service can be configured with its own address.
  urls = { for service, name in local.names : service => "https://${name}-${var.project_number}.${var.region}.run.app" }
}
