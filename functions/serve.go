package functions

import (
	"fmt"
	"net/http"
	"slices"
	"sync"

	"agents.example/controlplane/shared/function"
)

// Opener returns the dependencies of a function with these needs.
type Opener func(needs []function.Need) (Dependencies, error)

// Guards authenticate and limit calls.
type Guards struct {
	// Guard is the guard of every route.
	function.Guard
	// Push returns the verifier of the pushes to a worker.
	Push func(w function.Worker) function.PushVerifier
}

// Selection says which functions a process serves.
type Selection struct {
	// Target is the name of one function; empty selects all.
	Target string
	// Roles selects functions of these roles; empty selects all.
	Roles []function.Role
	// Maintenance refuses every call of a function that uses an outside system, and opens none. What needs none still
	// answers: the process is live, and the console and the description of the API load.
	Maintenance bool
}

func (s Selection) closes(needs []function.Need) bool { return s.Maintenance && len(needs) > 0 }

func (s Selection) has(name string, role function.Role) bool {
	return (s.Target == "" || s.Target == name) && (len(s.Roles) == 0 || slices.Contains(s.Roles, role))
}

// answersFor reports whether a process of all routes says where a route is that it must not serve.
func (s Selection) answersFor(r function.Route) bool {
	return s.Target == "" && slices.Contains(s.Roles, function.RoleAccounts) && r.Role == function.RoleExec &&
		!s.has(r.Name, r.Role)
}

// Authenticating returns the name of a selected route that authenticates its callers, and whether there is one.
func (s Selection) Authenticating() (name string, ok bool) {
	routes := described()
	i := slices.IndexFunc(routes, func(r function.Route) bool {
		return r.Access.Authenticates() && s.has(r.Name, r.Role)
	})
	if i < 0 {
		return "", false
	}
	return routes[i].Name, true
}

// described returns the routes without their dependencies. It builds them once.
var described = sync.OnceValue(func() []function.Route { return Routes(Dependencies{}) })

// Handler serves the selected functions. Each gets only the dependencies that it needs.
func Handler(s Selection, open Opener, guards Guards) (http.Handler, error) {
	var served []function.Served
	openRoutes := oncePerNeeds(open, Routes)
	for i, r := range described() {
		if s.answersFor(r) {
			served = append(served, function.Elsewhere(r.Name, r.Method, r.Path))
			continue
		}
		if !s.has(r.Name, r.Role) {
			continue
		}
		if s.closes(r.Needs) {
			served = append(served, function.UnderMaintenance(r.Name, r.Method, r.Path))
			continue
		}
		routes, err := openRoutes(r.Needs)
		if err != nil {
			return nil, fmt.Errorf("open what %s needs: %w", r.Name, err)
		}
		served = append(served, routes[i].Served(guards.Guard))
	}
	openWorkers := oncePerNeeds(open, Workers)
	for i, w := range Workers(Dependencies{}) {
		if !s.has(w.Name, function.RoleWorker) {
			continue
		}
		if s.closes(w.Needs) {
			served = append(served, function.UnderMaintenance(w.Name, http.MethodPost, w.Path()))
			continue
		}
		workers, err := openWorkers(w.Needs)
		if err != nil {
			return nil, fmt.Errorf("open what %s needs: %w", w.Name, err)
		}
		served = append(served, function.Served{
			Method: http.MethodPost, Path: w.Path(),
			Handler: workers[i].Handler(guards.Push(w)),
		})
	}
	if len(served) == 0 {
		return nil, fmt.Errorf("the catalogue has no function %q with one of the roles %v", s.Target, s.Roles)
	}
	return guards.Mux(served), nil
}

// oncePerNeeds returns a function that returns all functions of a list with the dependencies of some needs. It builds
// the list once for each set of needs. The order of the list does not depend on the dependencies.
func oncePerNeeds[F any](open Opener, list func(Dependencies) []F) func(needs []function.Need) ([]F, error) {
	built := map[string][]F{}
	return func(needs []function.Need) ([]F, error) {
		set := fmt.Sprint(slices.Sorted(slices.Values(needs)))
		if all, ok := built[set]; ok {
			return all, nil
		}
		d, err := open(needs)
		if err != nil {
			return nil, err
		}
		built[set] = list(d)
		return built[set], nil
	}
}
