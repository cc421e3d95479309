package simulationtest

import (
	"context"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/billing"
	apicall "agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/plan"
)

// billingDefects undo guards of repeats and of the enforcement of accounts.
func billingDefects() []defect {
	accounts := func(change func(w *World, a *billing.Account)) func(*World, billing.Store) billing.Store {
		return func(w *World, inner billing.Store) billing.Store {
			return changedAccounts{inner, func(a *billing.Account) { change(w, a) }}
		}
	}
	return []defect{
		{
			name: "a repeat loses its secrets", undoes: "a repeat stores what its first request did not",
			plant: Plant{
				Focus:  func(_ *Scheduler, u *Setup) { *u = crashingCreation() },
				Agents: func(_ *World, inner agent.Store) agent.Store { return oblivious{inner} },
			},
		},
		{
			name: "agents in error are not withheld", undoes: "billing pauses agents in every status with a pod",
			plant: Plant{
				Focus:  func(_ *Scheduler, u *Setup) { *u = unpaid() },
				Agents: skippedBilling(agent.Error),
			},
		},
		{
			name: "lost event is never fetched", undoes: "subscriptions are fetched daily", plant: Plant{
				Focus: arrangePayments,
				Accounts: accounts(func(w *World, a *billing.Account) {
					a.FetchedAt, a.Subscription.PeriodEnd = w.Now(), time.Time{}
				}),
			},
		},
		{
			name: "unknown plan pauses", undoes: "no action because of a plan of another release", plant: Plant{
				Focus: func(_ *Scheduler, u *Setup) {
					u.Payments, u.Unpaid, u.LostEvents, u.BillingTicks = []payment{unknown}, false, 0, 3
				},
				Accounts: accounts(func(_ *World, a *billing.Account) {
					if _, err := plan.Get(a.Plan); err != nil {
						a.Plan = plan.Hobby
					}
				}),
			},
		},
		{
			name: "paused forever", undoes: "agents that billing paused resume after a payment", plant: Plant{
				Focus: func(_ *Scheduler, u *Setup) {
					u.Payments, u.Unpaid, u.BillingTicks = []payment{succeeds}, true, 3
				},
				Agents: skippedBilling(agent.Paused),
			},
		},
		{
			name: "one subscription only", undoes: "another paid subscription takes the place of one that ends",
			plant: Plant{
				Focus: func(_ *Scheduler, u *Setup) {
					u.Payments, u.Unpaid, u.BillingTicks = []payment{buyAgain, endAgain}, false, 3
				},
				Payments: func(inner billing.Payments) billing.Payments { return singleSale{inner} },
			},
		},
		{
			name: "overtaken by a payment", undoes: "agents are paused only by the present account", plant: Plant{
				Focus: func(_ *Scheduler, u *Setup) {
					u.Payments, u.Unpaid, u.BillingTicks = []payment{succeeds}, true, 3
				},
				Accounts: func(_ *World, inner billing.Store) billing.Store { return &firstRead{Store: inner} },
			},
		},
	}
}

// singleSale lists no subscriptions but the one that is fetched.
type singleSale struct{ billing.Payments }

func (singleSale) ListLive(context.Context, string, string) ([]billing.Subscription, error) {
	return nil, nil
}

// firstRead reads the account of a process once, unless the process writes it.
type firstRead struct {
	billing.Store
	account *billing.Account
}

func (s *firstRead) Account(ctx context.Context, id string) (billing.Account, error) {
	if s.account != nil {
		return *s.account, nil
	}
	a, err := s.Store.Account(ctx, id)
	if err == nil {
		s.account = &a
	}
	return a, err
}

func (s *firstRead) Save(ctx context.Context, a billing.Account, eventID string) error {
	s.account = nil
	return s.Store.Save(ctx, a, eventID)
}

// unpaid is a setup of an organization that does not pay and whose agent breaks.
func unpaid() Setup {
	return Setup{
		Start: agent.Running, Scripts: [][]string{{"patch"}}, Workers: 1, Steps: 150, Ticks: 2, Unpaid: true,
		Trouble: neverReady, TroubleTime: 30 * time.Hour,
	}
}

// changedAccounts reads changed accounts.
type changedAccounts struct {
	billing.Store
	change func(*billing.Account)
}

func (s changedAccounts) Account(ctx context.Context, id string) (billing.Account, error) {
	a, err := s.Store.Account(ctx, id)
	s.change(&a)
	return a, err
}

// skipping lets billing change no agent in a status.
type skipping struct {
	agent.Store
	status agent.Status
}

func (s skipping) Change(ctx context.Context, id string, change func(*agent.Agent) error) (agent.Agent, error) {
	return s.Store.Change(ctx, id, func(a *agent.Agent) error {
		if apicall.From(ctx).Caller.Type == identity.System && a.Status == s.status {
			return nil
		}
		return change(a)
	})
}

func skippedBilling(status agent.Status) func(*World, agent.Store) agent.Store {
	return func(_ *World, inner agent.Store) agent.Store { return skipping{inner, status} }
}

// crashingCreation makes the process of a creation with secrets die.
func crashingCreation() Setup {
	return Setup{
		Scripts: [][]string{{"create with secrets"}}, Workers: 1, Steps: 60, Faults: 1, FaultRate: 0.2,
		Verdicts: []Verdict{CrashesBefore, CrashesAfter},
	}
}

// oblivious shows repeats an answer without open operations.
type oblivious struct{ agent.Store }

func (s oblivious) Create(ctx context.Context, a agent.Agent) (agent.Agent, error) {
	a, err := s.Store.Create(ctx, a)
	if apicall.From(ctx).Attempt.Replayed() {
		a.Operations = nil
	}
	return a, err
}
