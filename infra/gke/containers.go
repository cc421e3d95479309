package gke

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/image"
)

// frontName is the name of the front's container.
const frontName = "front"

// frontCommand is the front's program in the platform's image.
const frontCommand = dataplane.FrontCommand

// container runs the agent's image. It gets the client's variables and $PORT. It gets no credential of the agent's
// dashboard and API, unless the image checks them itself: what the container runs may be told to print its environment.
func (b blueprint) container() corev1.Container {
	environment := corev1.LocalObjectReference{Name: environmentName(b.config)}
	agentPort := intstr.FromInt(b.image.Port)
	listens := corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: agentPort}}
	serves := listens
	if path := b.image.HealthPath; path != "" {
		serves = corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: path, Port: agentPort, Scheme: corev1.URISchemeHTTP,
		}}
	}
	return corev1.Container{
		Name: agentName, Image: b.image.Reference, Command: b.image.Command, Args: b.image.Args,
		EnvFrom:   []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: environment}}},
		Env:       b.agentEnv(),
		Resources: b.agentResources(),
		VolumeMounts: append([]corev1.VolumeMount{
			{Name: volumeName, MountPath: b.image.DataPath},
			{Name: scratchName, MountPath: "/tmp"},
		}, b.fileMounts()...),
		// A start may take five minutes. The other probes begin when the agent has started.
		StartupProbe: &corev1.Probe{ProbeHandler: serves, PeriodSeconds: 1, TimeoutSeconds: 2, FailureThreshold: 300},
		// Only an agent that has stopped listening is restarted, and not one that is busy or waits for another service.
		LivenessProbe:   &corev1.Probe{ProbeHandler: listens, PeriodSeconds: 20, TimeoutSeconds: 5, FailureThreshold: 6},
		SecurityContext: restricted(),
	}
}

// agentEnv are the variables that the ConfigMap does not hold. They win over the ConfigMap's. A value may refer to
// variables before it, so those of the image come last. Values of the ConfigMap and of Secrets are taken as they are.
func (b blueprint) agentEnv() []corev1.EnvVar {
	env := []corev1.EnvVar{{Name: dataplane.EnvPort, Value: portNumber(b.image.Port)}}
	keys := containerSecretKeys(b.agent)
	taken := func(name string) bool {
		_, plain := plainEnv(b.agent)[name]
		return plain || slices.Contains(keys, name)
	}
	own := append(b.ownEnv(), b.home()...)
	if b.agent.NameAtStart == "" {
		own = nil // a pod of a former release stays as it is, also if another object of the agent is repaired
	}
	for _, v := range own {
		if v.Value != "" && !taken(v.Name) {
			env = append(env, v)
		}
	}
	if b.image.Auth == dataplane.AuthImage {
		env = append(env, b.fromSecret(dataplane.CredentialVariables())...)
	}
	env = append(env, b.fromSecret(keys)...)
	for _, v := range b.image.Env {
		present := func(e corev1.EnvVar) bool { return e.Name == v.Name }
		if !taken(v.Name) && !slices.ContainsFunc(env, present) {
			env = append(env, corev1.EnvVar{Name: v.Name, Value: v.Value})
		}
	}
	return env
}

// ownEnv are the variables with which the container knows itself.
func (b blueprint) ownEnv() []corev1.EnvVar {
	config := ""
	if b.agent.ConfigFile() != nil {
		config = dataplane.ConfigFilePath
	}
	return []corev1.EnvVar{
		{Name: dataplane.EnvAgentID, Value: b.agent.ID},
		{Name: dataplane.EnvAgentName, Value: literal(b.agent.NameAtStart)},
		{Name: dataplane.EnvAgentURL, Value: b.agent.URL(b.settings.Addresses, "/")},
		{Name: dataplane.EnvAgentHostname, Value: b.agent.Hostname(b.settings.Addresses)},
		{Name: dataplane.EnvAgentPlan, Value: string(b.plan.ID)},
		{Name: dataplane.EnvAgentMemory, Value: strconv.FormatInt(b.plan.MemoryLimitMiB<<20, 10)},
		{Name: dataplane.EnvAgentConfig, Value: config},
		{Name: dataplane.EnvAgentCloneOf, Value: b.agent.ClonedAgent()},
	}
}

// home is HOME, unless the image's variables have one.
func (b blueprint) home() []corev1.EnvVar {
	if slices.ContainsFunc(b.image.Env, func(v image.Variable) bool { return v.Name == dataplane.EnvHome }) {
		return nil
	}
	return []corev1.EnvVar{{Name: dataplane.EnvHome, Value: literal(b.image.Home)}}
}

// literal writes a text as the value of a variable that refers to no other one: $(NAME) is a reference, and $$ a $.
func literal(text string) string { return strings.ReplaceAll(text, "$", "$$") }

// fromSecret are variables with values from the keys of the agent's Secret that have their names.
func (b blueprint) fromSecret(keys []string) []corev1.EnvVar {
	env := make([]corev1.EnvVar, len(keys))
	for i, key := range keys {
		env[i] = corev1.EnvVar{Name: key, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: environmentName(b.config)}, Key: key,
		}}}
	}
	return env
}

// front checks credentials in front of the agent's container, and forwards to it. It is a sidecar: it starts first, and
// stops last. It has no startup probe, because the agent's container would wait for the end of that one. Its readiness
// is the pod's.
func (b blueprint) front() corev1.Container {
	c := corev1.Container{
		Name: frontName, Image: b.frontImage.Reference, Command: []string{frontCommand},
		RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
		Env:           b.frontEnv(),
		Ports: []corev1.ContainerPort{
			{Name: portName, ContainerPort: dataplane.FrontPort, Protocol: corev1.ProtocolTCP},
		},
		Resources: frontResources(),
		ReadinessProbe: &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
				Path: dataplane.PathReady, Port: intstr.FromInt32(dataplane.FrontPort), Scheme: corev1.URISchemeHTTP,
			}},
			PeriodSeconds: 1, TimeoutSeconds: 2, FailureThreshold: 3,
		},
		SecurityContext: restricted(),
	}
	if b.sleeps() { // the volume may have a file that says that the agent is busy
		c.VolumeMounts = []corev1.VolumeMount{
			{Name: volumeName, MountPath: dataplane.DefaultDataPath, ReadOnly: true},
		}
	}
	if b.agent.Sandbox {
		c.Ports = append(c.Ports, corev1.ContainerPort{
			Name: "metrics", ContainerPort: dataplane.FrontMetricsPort, Protocol: corev1.ProtocolTCP,
		})
	}
	return c
}

func (b blueprint) frontEnv() []corev1.EnvVar {
	s := b.settings
	env := []corev1.EnvVar{
		{Name: dataplane.EnvListenHost, ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "status.podIP"},
		}},
		{Name: dataplane.EnvAgentPort, Value: portNumber(b.image.Port)},
		{Name: dataplane.EnvAgentAPIPort, Value: portNumber(b.image.APIPort)},
		{Name: dataplane.EnvAgentHealthPath, Value: literal(b.image.HealthPath)},
		{Name: dataplane.EnvAgentAuth, Value: b.image.Auth},
		{Name: dataplane.EnvAgentPublicPaths, Value: literal(b.publicPaths())},
		{Name: dataplane.EnvAgentHostname, Value: b.agent.Hostname(s.Addresses)},
		{Name: dataplane.EnvJWKSURL, Value: b.keysURL()},
		// Three quarters of the memory limit.
		{Name: "GOMEMLIMIT", Value: strconv.Itoa(frontMemoryMiB*3/4) + "MiB"},
	}
	if b.agent.Sandbox {
		env = append(env, corev1.EnvVar{Name: dataplane.EnvFrontMetrics, Value: "true"})
	}
	if b.sleeps() {
		env = append(env,
			corev1.EnvVar{Name: dataplane.EnvAgentID, Value: b.agent.ID},
			corev1.EnvVar{
				Name: dataplane.EnvAgentSleepAfter, Value: strconv.FormatInt(b.agent.Sleep.AfterSeconds, 10),
			},
			corev1.EnvVar{Name: dataplane.EnvAgentBusyPath, Value: literal(b.image.BusyPath)},
			corev1.EnvVar{Name: dataplane.EnvAgentDataDir, Value: dataplane.DefaultDataPath},
		)
	}
	set := env[:0]
	for _, e := range env {
		if e.Value != "" || e.ValueFrom != nil {
			set = append(set, e)
		}
	}
	return append(set, b.fromSecret(dataplane.CredentialVariables())...)
}

// sleeps reports whether the front lets the agent sleep when it is idle. The pods of all other agents know nothing of
// that.
func (b blueprint) sleeps() bool { return b.agent.Sleep.AfterSeconds > 0 }

// publicPaths writes the paths of the image and of the agent, each once.
func (b blueprint) publicPaths() string {
	return strings.Join(agent.PublicPaths(slices.Concat(b.image.PublicPaths, b.agent.PublicPaths)), ",")
}

// portNumber writes a port; 0 is none.
func portNumber(port int) string {
	if port == 0 {
		return ""
	}
	return strconv.Itoa(port)
}

// restricted is what Pod Security's level of that name demands of every container, and a read-only file system.
func restricted() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		ReadOnlyRootFilesystem:   new(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}
