package open

import (
	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/system"
	"agents.example/controlplane/infra/gateway"
	"agents.example/controlplane/shared/handoff"
)

func (o *Clients) fillPublish(d *functions.Dependencies) error {
	nudger, err := o.nudges()
	if err == nil {
		d.Nudger = nudger
	}
	return err
}

// fillRecords comes after fillPublish: stores nudge on their own where the function may publish.
func (o *Clients) fillRecords(d *functions.Dependencies) error {
	records, err := o.records()
	if err != nil {
		return err
	}
	d.Agents, d.Records, d.Keys, d.Directory = records.Agents(d.Nudger), records.Records(), records.Keys(), records.Directory()
	d.Counts, d.Audit, d.Operations = records.Counts(), records.AuditLog(), records.Operations()
	d.Accounts, d.Seen = records.Accounts(), records.Members()
	d.Metrics, d.Snapshots = records.Metrics(), records.Metrics()
	d.Checks = []system.Check{{Name: "firestore", Run: records.Ping}}
	return nil
}

func (o *Clients) fillSecrets(d *functions.Dependencies) error {
	vault, err := o.secrets()
	if err == nil {
		d.Vault = vault
	}
	return err
}

func (o *Clients) fillDepositary(d *functions.Dependencies) error {
	vault, err := o.secrets()
	if err == nil {
		d.Depositary = vault
	}
	return err
}

func (o *Clients) fillCredentials(d *functions.Dependencies) error {
	vault, err := o.secrets()
	if err == nil {
		d.Credentials = vault
	}
	return err
}

func (o *Clients) fillClusters(d *functions.Dependencies) error {
	clusters, err := o.clusters()
	d.Cluster, d.Fleet, d.Lookout = clusters.Cluster, clusters.Fleet, clusters.Lookout
	return err
}

func (o *Clients) fillHandoff(d *functions.Dependencies) error {
	d.Handoff = handoff.NewSigner(o.config.HandoffKey)
	return nil
}

func (o *Clients) fillGateway(d *functions.Dependencies) error {
	d.Gateway = gateway.New(gateway.Options{Addresses: o.config.Addresses(), DialAddress: o.config.GatewayAddress})
	return nil
}

func (o *Clients) fillPoints(d *functions.Dependencies) error {
	points, err := o.points()
	d.Points = points.Source
	return err
}

func (o *Clients) fillPayments(d *functions.Dependencies) error {
	payments, err := o.payments()
	d.Payments = payments
	return err
}

func (o *Clients) fillMembers(d *functions.Dependencies) error {
	members, err := o.members()
	d.Members = members
	return err
}
