package gke

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/provisioning"
)

const (
	// importName is the container that fills the agent's volume from an archive.
	importName      = "import"
	importMemoryMiB = 128
	importCPULimit  = 1000 // millicores
	codeImport      = "import_failed"
)

// imports is the container that fills the volume of a new agent from an archive, before the others start; none without
// an archive. It alone knows the archive's URL.
func (b blueprint) imports() []corev1.Container {
	if !b.agent.Imports || !slices.Contains(secretKeys(b.agent), dataplane.EnvImportURL) {
		return nil
	}
	env := append(b.fromSecret([]string{dataplane.EnvImportURL}),
		corev1.EnvVar{Name: dataplane.EnvDataDir, Value: dataplane.DefaultDataPath},
		corev1.EnvVar{Name: dataplane.EnvImportBytes, Value: strconv.FormatInt(b.volumeBytes(), 10)},
		corev1.EnvVar{Name: "GOMEMLIMIT", Value: strconv.Itoa(importMemoryMiB*3/4) + "MiB"})
	if b.agent.Egress.Restricted() {
		env = append(env, corev1.EnvVar{Name: dataplane.EnvImportGate, Value: gateHost(b.settings.GateAddress)})
	}
	if b.settings.LoopbackImports {
		env = append(env, corev1.EnvVar{Name: dataplane.EnvImportLoopback, Value: "true"})
	}
	return []corev1.Container{{
		Name: importName, Image: b.frontImage.Reference, Command: []string{frontCommand, dataplane.ImportArg},
		Env: env,
		Resources: corev1.ResourceRequirements{
			Requests: resources(frontCPURequest, importMemoryMiB, frontEphemeralBytes),
			Limits:   resources(importCPULimit, importMemoryMiB, frontEphemeralBytes),
		},
		VolumeMounts:    []corev1.VolumeMount{{Name: volumeName, MountPath: dataplane.DefaultDataPath}},
		SecurityContext: restricted(),
	}}
}

// judgeImport explains a container that could not fill the agent's volume; nil while it runs, and when it has.
func judgeImport(status *corev1.ContainerStatus) (f *provisioning.PodFailure, said string) {
	exit := status.State.Terminated
	if w := status.State.Waiting; w != nil {
		if f, said := judgeFront(status, false); f != nil && status.LastTerminationState.Terminated == nil {
			return f, said
		}
		exit = status.LastTerminationState.Terminated
	}
	if exit == nil || exit.ExitCode == 0 {
		return nil, ""
	}
	why, certain := importProblem(int(exit.ExitCode))
	return &provisioning.PodFailure{
		Code: codeImport, Permanent: certain,
		Message: "The archive at import_url could not be imported: " + why,
		Observed: agent.Observation{
			Reason: exit.Reason, Exited: true, ExitCode: int(exit.ExitCode), Restarts: int(status.RestartCount),
		},
	}, importName + ": " + exit.Reason
}

// importProblem is what an exit code says, and whether another attempt would end in the same way.
func importProblem(exitCode int) (why string, certain bool) {
	const again = " Start the agent again once its server has the archive, or create another agent with another URL."
	switch exitCode {
	case dataplane.ImportRefused:
		return "its server did not answer with status 200. Redirects are not followed." + again, true
	case dataplane.ImportDenied:
		return "its server denies the access. The URL's signature may have ended." + again, true
	case dataplane.ImportMissing:
		return "its server has no such archive." + again, true
	case dataplane.ImportNotPublic:
		return "its host has an address that is not one of the internet." + again, true
	case dataplane.ImportInvalid:
		return "it is not an archive that an export has sent, or it has what no archive may have." + again, true
	case dataplane.ImportNewer:
		return "it has a newer format than this service knows." + again, true
	case dataplane.ImportIncomplete:
		return "it is incomplete or damaged." + again, true
	case dataplane.ImportTooLarge:
		return "the volume of the agent's plan has no room for it." + again, true
	default:
		return "its server could not be reached, or the download broke off. It is tried again.", false
	}
}
