package organization

import (
	"context"

	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/fault"
)

// Exec says who may run commands in the containers of an organization's agents. The zero value is ExecAdmins.
type Exec string

// The settings.
const (
	ExecOff    Exec = "off"
	ExecAdmins Exec = "admins"
)

// Values lists the settings.
func (Exec) Values() []string { return []string{string(ExecOff), string(ExecAdmins)} }

// ExecSetting returns the setting of the organization.
func (o Organization) ExecSetting() Exec {
	if o.Exec == "" {
		return ExecAdmins
	}
	return o.Exec
}

// CheckExec checks that the organization's setting lets admins enter containers. The error is Conflict.
func (o Organization) CheckExec() error {
	if o.ExecSetting() == ExecAdmins {
		return nil
	}
	return fault.New(fault.Conflict, "exec_off",
		"The organization's setting exec is off. An admin can change it: PATCH /api/v1/organizations/current "+
			"with exec admins.")
}

// Choices are what admins choose for their organization.
type Choices struct {
	// Exec says who may run commands in the containers of the organization's agents.
	Exec Exec
	// Egress is what new agents may reach unless their client says otherwise.
	Egress egress.Rules
}

// Settings stores what admins choose for their organization.
type Settings interface {
	// Choose changes the choices in one commit. It may call change several times. Errors: NotFound, Unavailable, and
	// those of change.
	Choose(ctx context.Context, organizationID string, change func(*Choices) error) error
}
