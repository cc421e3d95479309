package gke

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/provisioning"
)

const (
	// trustName is the container that writes the certificates which the agent trusts.
	trustName    = "trust"
	caVolume     = "ca"
	caBytes      = 4 << 20
	trustMemory  = 32   // MiB
	trustCPU     = 1000 // millicores
	resolverDots = "1"
)

// egressPolicy is what the gate enforces for the agent; ok is false for an agent that does without a gate. The front
// asks the control plane for keys, and whether its agent may sleep.
func (b blueprint) egressPolicy() (p egress.Policy, ok bool) {
	if p, ok = b.agent.EgressPolicy(); !ok {
		return p, false
	}
	p.Control, _ = strings.CutSuffix(b.settings.KeysURL, dataplane.PathKeys)
	return p, true
}

// keysURL is where the agent's front finds the control plane: at the gate, if that is its only way out.
func (b blueprint) keysURL() string {
	if _, ok := b.egressPolicy(); !ok || b.settings.KeysURL == "" {
		return b.settings.KeysURL
	}
	at := url.URL{Scheme: "http", Host: b.settings.GateAddress, Path: dataplane.PathKeys}
	return at.String()
}

// gatePeers are the gate's pods. A Service's address stands for them: network policies see where a connection ends.
func (b blueprint) gatePeers() []networkingv1.NetworkPolicyPeer {
	peers := namespaces(b.settings.RouterNamespace)
	peers[0].PodSelector = &metav1.LabelSelector{MatchLabels: map[string]string{labelName: dataplane.GateName}}
	return peers
}

// gatePorts are what the gate's pods serve.
func gatePorts() []networkingv1.NetworkPolicyPort {
	return []networkingv1.NetworkPolicyPort{
		port(corev1.ProtocolUDP, dataplane.GateDNSPort),
		port(corev1.ProtocolTCP, dataplane.GateDNSPort),
		port(corev1.ProtocolTCP, dataplane.GateHTTPPort),
		port(corev1.ProtocolTCP, dataplane.GateTLSPort),
	}
}

// gateHost is the gate's address without a port.
func gateHost(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// restrict makes the gate the only name server of a pod, and its containers trust the agent's CA if there are brokered
// secrets.
func (b blueprint) restrict(pod *corev1.PodSpec) {
	p, ok := b.egressPolicy()
	if !ok {
		return
	}
	pod.DNSPolicy = corev1.DNSNone
	pod.DNSConfig = &corev1.PodDNSConfig{
		Nameservers: []string{gateHost(b.settings.GateAddress)},
		// A name with a dot is whole: there are no domains to search.
		Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: new(resolverDots)}},
	}
	hash := p.InjectHash()
	if hash == "" {
		return
	}
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: caVolume, VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: new(size(caBytes))},
	}})
	pod.InitContainers = slices.Insert(pod.InitContainers, 0, b.trust(hash))
	for i := range pod.Containers {
		c := &pod.Containers[i]
		c.VolumeMounts = append(c.VolumeMounts,
			corev1.VolumeMount{Name: caVolume, MountPath: dataplane.CADir, ReadOnly: true})
		c.Env = append(c.Env, b.egressEnv(*c)...)
	}
}

// egressEnv are placeholders for brokered secrets, and the variables with which programs find the certificates. A
// variable that the agent or its image sets stays. A name that is there twice would be refused.
func (b blueprint) egressEnv(c corev1.Container) []corev1.EnvVar {
	var env []corev1.EnvVar
	add := func(name, value string) {
		_, plain := plainEnv(b.agent)[name]
		has := func(e corev1.EnvVar) bool { return e.Name == name }
		if !plain && !slices.ContainsFunc(c.Env, has) && !slices.ContainsFunc(env, has) {
			env = append(env, corev1.EnvVar{Name: name, Value: value})
		}
	}
	for _, s := range b.agent.Injected {
		add(s.Key, egress.Placeholder)
	}
	for _, name := range dataplane.CAVariables() {
		add(name, dataplane.CAFile)
	}
	return env
}

// trust writes the certificates before the other containers start. It waits until the gate has the agent's policy.
func (b blueprint) trust(hash string) corev1.Container {
	ca := url.URL{
		Scheme: "http", Host: b.settings.GateAddress, Path: dataplane.PathGateCA,
		RawQuery: url.Values{dataplane.QueryGatePolicy: {hash}}.Encode(),
	}
	return corev1.Container{
		Name: trustName, Image: b.frontImage.Reference, Command: []string{frontCommand, dataplane.TrustArg},
		Env: []corev1.EnvVar{
			// The gate knows the agent by it.
			{Name: dataplane.EnvListenHost, ValueFrom: &corev1.EnvVarSource{
				FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "status.podIP"},
			}},
			{Name: dataplane.EnvCAURL, Value: ca.String()},
			{Name: dataplane.EnvCAFile, Value: dataplane.CAFile},
		},
		Resources: corev1.ResourceRequirements{
			Requests: resources(frontCPURequest, trustMemory, frontEphemeralBytes),
			Limits:   resources(trustCPU, trustMemory, frontEphemeralBytes),
		},
		VolumeMounts:    []corev1.VolumeMount{{Name: caVolume, MountPath: dataplane.CADir}},
		SecurityContext: restricted(),
	}
}

// judgeTrust explains a container that has not written the certificates; nil until it runs, and when it has. It is the
// platform's program, as the front is.
func judgeTrust(status *corev1.ContainerStatus) (f *provisioning.PodFailure, said string) {
	exit := status.State.Terminated
	if w := status.State.Waiting; w != nil {
		if f, said := judgeFront(status, false); f != nil && status.LastTerminationState.Terminated == nil {
			return f, said
		}
		exit = status.LastTerminationState.Terminated
	}
	switch {
	case status.State.Running != nil:
		return waiting("The gate of the agent's cell did not hand out the certificate for the agent's brokered " +
			"secrets in time. It is asked again. Contact support if this persists."), trustName + ": running"
	case exit == nil || exit.ExitCode == 0:
		return nil, ""
	default:
		return &provisioning.PodFailure{
			Code: codeNoStart,
			Message: fmt.Sprintf("The platform's container that prepares the agent's certificates exits: "+
				"exit code %d%s. %s", exit.ExitCode, exitHint(exit.ExitCode), contactSupport),
		}, trustName + ": " + exit.Reason
	}
}
