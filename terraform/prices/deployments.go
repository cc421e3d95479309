package prices

import (
	"cmp"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/terraform/cell"
)

// Deployment is a control plane with its agents, all of one plan.
type Deployment struct {
	Title  string
	Agents int64
	Plan   plan.ID
	// Awake is the share of the time in which agents have pods; 0 is all the time.
	Awake float64
	Cells int64
	// Nodes and Addresses are those of the one Cloud NAT gateway.
	Nodes, Addresses float64
	// Doors are the policies of Cloud Armor: with a domain, one for the API and one for all cells; otherwise none.
	Doors float64
	// Requests is the number of API requests in a month. Without a domain, Cloud Armor does not see them.
	Requests float64
	// ArmorRequests is the number of them that Cloud Armor sees.
	ArmorRequests float64
	// Held is the number of instances that hold an answer all the time: streams of events or logs that people follow.
	// Cloud Run bills an instance with an open request as active.
	Held float64
	// Estimates that no price list decides: what go run ./emulators bench counts of Firestore, the functions' CPU time,
	// and what is stored of metrics, logs and traces. A line of a request has 850 bytes, so 50 a second cost $52.
	Firestore, CPUTime, Telemetry float64
}

// Deployments are those of the README.
func Deployments() []Deployment {
	const aSecond = 3600 * hoursOfMonth
	return []Deployment{
		{
			Title:  "5 hobby agents, no domain",
			Agents: 5, Plan: plan.Hobby, Cells: 1, Nodes: 3, Addresses: 1, Doors: 0,
			Firestore: 1, CPUTime: 0, Telemetry: 1,
		},
		{
			Title:  "1,000 startup agents in two cells, 50 requests a second",
			Agents: 1000, Plan: plan.Startup, Cells: 2, Nodes: 40, Addresses: 4, Doors: 2,
			Requests: 50 * aSecond, ArmorRequests: 50 * aSecond, Held: 1, Firestore: 90, CPUTime: 70, Telemetry: 100,
		},
		{
			Title:  "1,000 hobby agents that never sleep",
			Agents: 1000, Plan: plan.Hobby, Cells: 1, Nodes: 20, Addresses: 1, Doors: 2,
			Firestore: 20, CPUTime: 10, Telemetry: 20,
		},
		{
			Title:  "the same, awake 2 % of the time",
			Agents: 1000, Plan: plan.Hobby, Awake: 0.02, Cells: 1, Nodes: 3, Addresses: 1, Doors: 2,
			Firestore: 20, CPUTime: 10, Telemetry: 20,
		},
	}
}

// keptInstances are the functions that keep an instance: one of a route, and one of a worker.
const (
	keptInstances = 2
	routeGiB      = 0.5
	workerGiB     = 0.5
)

// samplesPerPod is the number of billed metrics that GKE's component POD has of a pod, one sample of each a minute.
const samplesPerPod = 15 * 60 * hoursOfMonth

// A cell has routersOfCell routers, and each reports about the agents that it serves once a minute: the requests by
// status, of which an agent has three here, and the histogram of durations, billed as 2 samples and one for each bucket
// that is not empty, of which it has 6 here.
const (
	routersOfCell    = 3
	samplesPerRouter = (3 + 2 + 6) * 60 * hoursOfMonth
)

// rulesPerPolicy are the rules of a Cloud Armor policy, with the default rule.
const rulesPerPolicy = 2

// Row is a line of a bill.
type Row struct {
	What string
	USD  float64
}

// Bill lists what a deployment costs in a month.
func (l List) Bill(d Deployment) ([]Row, error) {
	p, err := plan.Get(d.Plan)
	if err != nil {
		return nil, err
	}
	system, room, err := systemPods()
	if err != nil {
		return nil, err
	}
	agent, agents, cells := l.Agent(p), float64(d.Agents), float64(d.Cells)
	awake := agents * cmp.Or(d.Awake, 1) // as many as cost as much as those that sleep and wake
	const natVMs = 32                    // a gateway of more VMs costs as much as one of 32
	return []Row{
		{"GKE clusters (the first of a billing account is free)", l.Of("cluster", cells*hoursOfMonth)},
		{"agents' pods and volumes, as Autopilot bills them", awake*(agent.Billed-agent.Volume) + agents*agent.Volume},
		{"daily snapshots of agents' volumes, half full, of which 2 % change in a day", agents * agent.Snapshots},
		{"agents' secrets, four versions each", agents * agent.Secrets},
		{"routers, gates, notifier and canary", cells * l.Pod(system)},
		{"room that is kept ready (`warm_agents = 1`, for each of two runtime classes)", cells * l.Pod(room)},
		{
			"load balancers and Cloud Armor",
			l.Of("forwarding", hoursOfMonth) + d.Doors*(l.Of("armor_policy", 1)+l.Of("armor_rule", rulesPerPolicy)) +
				l.Of("armor_request", d.ArmorRequests),
		},
		{
			"Cloud NAT without traffic",
			hoursOfMonth * (l.Of("nat_vm", min(d.Nodes, natVMs)) + l.Of("address", d.Addresses)),
		},
		{
			"functions, two of which keep an instance (`warm_instances = 1`)",
			3600*hoursOfMonth*(l.Of("idle_vcpu", keptInstances)+l.Of("idle_gib", routeGiB+workerGiB)) +
				l.Of("request", d.Requests) + d.CPUTime,
		},
		{
			"an instance that holds streams of events or logs all month, up to 175 of them",
			3600 * hoursOfMonth * (l.Of("active_vcpu", d.Held) + l.Of("active_gib", d.Held*routeGiB)),
		},
		{"Firestore with point-in-time recovery and backups (estimate)", d.Firestore},
		{"the routers' metrics of each agent", l.Of("sample", awake*routersOfCell*samplesPerRouter)},
		{
			"metrics of pods, and other metrics, logs and traces (estimate)",
			l.Of("sample", awake*samplesPerPod) + d.Telemetry,
		},
	}, nil
}

// systemPods returns what the pods of a cell without agents request: the ones that serve, and the placeholders.
func systemPods() (system, room Pod, err error) {
	warm, err := plan.Get(plan.Starter) // the default of warm_plan
	if err != nil {
		return Pod{}, Pod{}, err
	}
	size := AgentPod(warm)
	objects, err := cell.Objects(cell.Values{
		Domain: "cell.agents.example.net", WarmAgents: 1, WarmMillicores: size.Millicores, WarmMiB: size.MemoryMiB,
	})
	if err != nil {
		return Pod{}, Pod{}, err
	}
	least := map[string]int64{}
	var deployments []appsv1.Deployment
	for _, o := range objects {
		var scaler autoscalingv2.HorizontalPodAutoscaler
		var deployment appsv1.Deployment
		switch o.GetKind() {
		case "HorizontalPodAutoscaler":
			err = errors.Join(err, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &scaler))
			least[scaler.Spec.ScaleTargetRef.Name] = int64(*scaler.Spec.MinReplicas)
		case "Deployment":
			err = errors.Join(err, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &deployment))
			deployments = append(deployments, deployment)
		}
	}
	for _, d := range deployments {
		n := least[d.Name]
		if n == 0 && d.Spec.Replicas != nil {
			n = int64(*d.Spec.Replicas)
		}
		if n == 0 {
			return Pod{}, Pod{}, fmt.Errorf("the Deployment %s has no number of replicas", d.Name)
		}
		if d.Namespace == "agent-warm" {
			room = room.plus(n, podOf(d.Spec.Template.Spec).Billed())
		} else {
			system = system.plus(n, podOf(d.Spec.Template.Spec).Billed())
		}
	}
	return system, room, err
}

// podOf adds up what the containers of a pod request that run at the same time.
func podOf(s corev1.PodSpec) Pod {
	var sum Pod
	for _, c := range append(sidecars(s.InitContainers), s.Containers...) {
		r := c.Resources.Requests
		sum.Millicores += r.Cpu().MilliValue()
		sum.MemoryMiB += r.Memory().Value() >> 20
		sum.ScratchMiB += r.StorageEphemeral().Value() >> 20
	}
	return sum
}

func sidecars(initial []corev1.Container) []corev1.Container {
	var found []corev1.Container
	for _, c := range initial {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			found = append(found, c)
		}
	}
	return found
}
