package functions

import (
	"fmt"
	"net/http"
	"slices"

	"agents.example/controlplane/shared/function"
)

// Opener hands a function what its needs name, and nothing else.
type Opener func(needs []function.Need) (Dependencies, error)

// Guards decide who is let in.
type Guards struct {
	function.Guard
	// Push makes the verifier of the pushes to a worker.
	Push func(w function.Worker) function.PushVerifier
}

// Selection says which functions a process serves.
type Selection struct {
	// Target is the name of one function, or empty for all.
	Target string
	// Roles narrows to functions of these roles; empty does not.
	Roles []function.Role
}

func (s Selection) has(name string, role function.Role) bool {
	return (s.Target == "" || s.Target == name) && (len(s.Roles) == 0 || slices.Contains(s.Roles, role))
}

// Handler serves the selected functions of the catalogue, each with what its own needs name.
func Handler(s Selection, open Opener, guards Guards) (http.Handler, error) {
	var served []function.Served
	for i, r := range Routes(Dependencies{}) {
		if !s.has(r.Name, r.Role) {
			continue
		}
		d, err := open(r.Needs)
		if err != nil {
			return nil, fmt.Errorf("open what %s needs: %w", r.Name, err)
		}
		r = Routes(d)[i]
		served = append(served, function.Served{Method: r.Method, Path: r.Path, Handler: r.Handler(guards.Guard)})
	}
	for i, w := range Workers(Dependencies{}) {
		if !s.has(w.Name, function.RoleWorker) {
			continue
		}
		d, err := open(w.Needs)
		if err != nil {
			return nil, fmt.Errorf("open what %s needs: %w", w.Name, err)
		}
		w = Workers(d)[i]
		served = append(served, function.Served{Method: http.MethodPost, Path: w.Path(),
			Handler: w.Handler(guards.Push(w))})
	}
	if len(served) == 0 {
		return nil, fmt.Errorf("there is no function %q of the roles %v in the catalogue", s.Target, s.Roles)
	}
	return function.Mux(served), nil
}
