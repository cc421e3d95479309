package simulationtest

import (
	"strconv"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/provisioning"
)

// namespace holds the objects of one agent.
type namespace struct {
	name      string
	uid       string
	createdAt time.Time
	// terminating is true once the deletion began. The namespace is not gone before stuckUntil.
	terminating   bool
	stuckUntil    time.Duration
	orphanedSince time.Time
	stages        map[agent.StageName]bool
	// starter is who starts the agent, as its route says.
	starter starter
	way     wayOut
	// configs maps the names of Secrets and ConfigMaps to their content.
	configs map[string]config
	// claims are those of the agent's volumes, by the numbers of the volumes, and cuts its snapshots by their ids.
	claims map[int64]*claim
	cuts   map[string]*cut
	// cutOrder lists the ids of the snapshots in order.
	cutOrder []string
	reader   reader
	// room is the plan of the quota; empty without a quota.
	room plan.ID
	set  *statefulSet
	pod  *pod
}

// config is the content of a Secret or a ConfigMap.
type config struct {
	generation int64
	values     map[string]string
}

// statefulSet is the workload of an agent.
type statefulSet struct {
	generation int64
	replicas   int
	template   template
	// appliedAt is when the generation was applied.
	appliedAt time.Duration
	// credential is the version of the credentials.
	credential int64
	// asleep: the agent has no pod because it sleeps.
	asleep bool
}

// template is what a pod is made of.
type template struct {
	hash, secret, configMap string
	sandbox                 bool
	// gated: the pod's only name server is the gate.
	gated bool
	size  plan.ID
	// volume is the number of the agent's volume.
	volume int64
	// image and front are the references of the images.
	image, front string
}

// pod is the agent's pod. It has values once its container has started.
type pod struct {
	template
	values    map[string]string
	started   bool
	ready     bool
	createdAt time.Time
	since     time.Time
	lastRun   time.Duration
	ran       time.Time
	ended     time.Time
	process   *front
	door      door
}

// trouble is what is wrong with the pods of an agent.
type trouble string

const (
	healthy    trouble = ""
	neverReady trouble = "never ready"
	crashLoop  trouble = "crash loop"
)

// Hash stands for everything in an agent's record that a pod is started with.
func Hash(a agent.Agent) string {
	b := make([]byte, 0, 64)
	for _, e := range a.Env {
		b = append(b, e.Key...)
		b = append(b, '=')
		b = append(b, e.Value...)
		b = strconv.AppendInt(append(b, ':'), e.SecretVersion, 10)
		b = append(b, ' ')
	}
	b = strconv.AppendInt(append(b, 'c'), a.CredentialVersion, 10)
	b = strconv.AppendInt(append(b, 'r'), a.Rollout, 10)
	b = strconv.AppendInt(append(b, 'v'), a.Volume.Number, 10)
	b = strconv.AppendBool(append(b, 's'), a.Sandbox)
	if p, ok := a.EgressPolicy(); ok {
		b = append(append(b, 'g'), p.InjectHash()...)
		for _, s := range p.Inject {
			b = append(append(b, ' '), s.Key...)
		}
	}
	b = append(append(append(b, a.Image.Reference...), ' '), a.Front.Reference...)
	return string(append(b, a.Plan...))
}

// names returns the names of the Secret and the ConfigMap of a configuration.
func (c *Cluster) names(hash string) (secret, configMap string) {
	if c.Rules.FixedNames {
		return "secret", "config"
	}
	return secretPrefix + hash, configPrefix + hash
}

// The prefixes of the names of Secrets and ConfigMaps.
const (
	secretPrefix = "secret "
	configPrefix = "config "
)

// The names of the variables with the credentials.
const (
	passwordVariable = "DASHBOARD_PASSWORD" //nolint:gosec // the name of a variable
	keyVariable      = "API_SERVER_KEY"
)

func secretValues(in provisioning.RuntimeInput) map[string]string {
	values := map[string]string{passwordVariable: in.Credentials.DashboardPassword, keyVariable: in.Credentials.APIKey}
	for key, value := range in.Secrets {
		values[key] = string(value)
	}
	return values
}

func plainValues(a agent.Agent) map[string]string {
	values := map[string]string{}
	for _, e := range a.Env {
		if !e.Secret() {
			values[e.Key] = e.Value
		}
	}
	return values
}

// putStage writes the objects of a stage. Of most, the content does not matter here.
func (c *Cluster) putStage(a agent.Agent, stage agent.StageName) error {
	n, err := c.find(a.ID)
	if err != nil {
		return err
	}
	if stage == agent.StagePolicy || stage == agent.StageRoute {
		if err := n.way.put(a, stage, !c.Rules.AnyWayOut); err != nil {
			return err
		}
	}
	switch {
	case stage == agent.StageStorage:
		return c.putVolume(n, a)
	case stage == agent.StagePolicy && (n.room == "" || !c.Rules.FixedQuota):
		n.room = a.Plan
	case stage == agent.StageRoute:
		n.starter = starterOf(a)
		if c.Rules.OwnerStarts && a.Asleep() {
			n.starter = dataplane.StarterOwner
		}
	}
	n.stages[stage] = true
	return nil
}
