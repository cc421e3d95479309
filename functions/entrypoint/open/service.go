package open

import (
	"context"
	"errors"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/entrypoint/config"
	"agents.example/controlplane/functions/entrypoint/run"
	infraidentity "agents.example/controlplane/infra/identity"
	"agents.example/controlplane/infra/tracing"
	"agents.example/controlplane/shared/function"
)

// Routes opens the routes of some roles: the target, or all of them.
func Routes(ctx context.Context, c config.Common, roles ...function.Role) (run.Service, error) {
	return New(ctx, c).service(functions.Selection{Target: c.Target, Roles: roles}, nil)
}

// Accounts opens the routes of roles api and accounts: the target, or all of them.
func Accounts(ctx context.Context, c config.Common, openers Openers) (run.Service, error) {
	o := New(ctx, c)
	o.Openers = openers
	return o.service(functions.Selection{Target: c.Target, Roles: []function.Role{function.RoleAPI, function.RoleAccounts}}, nil)
}

// Workers opens the workers: the target, or all of them.
func Workers(ctx context.Context, c config.Worker, openers Openers) (run.Service, error) {
	return withWorkers(ctx, c, openers, functions.Selection{Target: c.Target, Roles: []function.Role{function.RoleWorker}})
}

// All opens the whole catalogue, each function with what its own needs name.
func All(ctx context.Context, c config.Worker, openers Openers) (run.Service, error) {
	return withWorkers(ctx, c, openers, functions.Selection{})
}

func withWorkers(
	ctx context.Context, c config.Worker, openers Openers, s functions.Selection,
) (run.Service, error) {
	o := New(ctx, c.Common)
	o.Openers, o.Patience = openers, c.Patience
	pushes, err := infraidentity.NewPush(infraidentity.PushOptions{
		Issuer: c.PushIssuer, Audience: c.PushAudience, ServiceAccount: c.PushServiceAccount,
	})
	if err != nil {
		return run.Service{}, err
	}
	return o.service(s, pushes)
}

func (o *Clients) service(s functions.Selection, pushes function.PushVerifier) (run.Service, error) {
	if ratio := o.config.TraceRatio; ratio > 0 {
		stop, err := tracing.Start(o.ctx, tracing.Options{ProjectID: o.config.ProjectID, Ratio: ratio})
		if err != nil {
			return run.Service{}, err
		}
		o.closeLater(stop)
	}
	guard, err := o.Guard()
	if err != nil {
		return run.Service{}, errors.Join(err, o.Close())
	}
	h, err := functions.Handler(s, o.For, functions.Guards{
		Guard: guard,
		Push:  func(function.Worker) function.PushVerifier { return pushes },
	})
	if err != nil {
		return run.Service{}, errors.Join(err, o.Close())
	}
	h = run.BehindProxies(h, o.config.ProxyHops)
	return run.Service{
		Handler: h, Host: o.config.Host, Port: o.config.Port, Project: o.config.ProjectID, Debug: o.config.Debug, Close: o.Close,
	}, nil
}
