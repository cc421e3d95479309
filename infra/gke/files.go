package gke

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"agents.example/controlplane/shared/dataplane"
)

// filesPrefix begins the names of the ConfigMaps with files. They are immutable, and named by the configuration as
// those of the environment.
const filesPrefix = "agent-files-"

func filesName(config string) string { return filesPrefix + config }

const (
	// configVolume has the files below /config, and seedVolume those that are written to the agent's volume.
	configVolume = "config"
	seedVolume   = "seed"
	seedPath     = "/seed"
	seedName     = "seed"
	// configMode is the mode of the file with the client's config.
	configMode = 0o444
)

// files is the ConfigMap with the client's config and the contents of files; none if there are none. Variables are in
// another one, because a container gets all keys of that.
func (b blueprint) files() []object {
	data := map[string]string{}
	if config := b.agent.ConfigFile(); config != nil {
		data[dataplane.ConfigFile] = string(config)
	}
	for i, f := range b.agent.Files {
		if f.Secret == "" {
			data[fileKey(i)] = f.Content
		}
	}
	if len(data) == 0 {
		return nil
	}
	return []object{&corev1.ConfigMap{
		TypeMeta: typed("v1", "ConfigMap"), ObjectMeta: b.versioned(filesName(b.config)),
		Data: data, Immutable: new(true),
	}}
}

// fileKey is the key of a file in the ConfigMap, by its place in the agent's record.
func fileKey(i int) string { return "file-" + strconv.Itoa(i) }

// fileVolumes are the volumes that have files. A file of a secret that the agent does not have is left out: the pod
// would wait for it.
func (b blueprint) fileVolumes() []corev1.Volume {
	var config, seed projection
	if b.agent.ConfigFile() != nil {
		config.plain = append(config.plain, keyToPath(dataplane.ConfigFile, dataplane.ConfigFile, configMode))
	}
	secrets := containerSecretKeys(b.agent)
	for i, f := range b.agent.Files {
		into, name := &config, strings.TrimPrefix(f.Path, dataplane.ConfigPath+"/")
		if onVolume, ok := f.OnVolume(); ok {
			into, name = &seed, onVolume
		}
		switch {
		case f.Secret == "":
			into.plain = append(into.plain, keyToPath(fileKey(i), name, f.Mode))
		case slices.Contains(secrets, f.Secret):
			into.secret = append(into.secret, keyToPath(f.Secret, name, f.Mode))
		}
	}
	var volumes []corev1.Volume
	for _, v := range []struct {
		name string
		projection
	}{{configVolume, config}, {seedVolume, seed}} {
		if sources := v.sources(b.config); len(sources) > 0 {
			volumes = append(volumes, corev1.Volume{Name: v.name, VolumeSource: corev1.VolumeSource{
				Projected: &corev1.ProjectedVolumeSource{Sources: sources},
			}})
		}
	}
	return volumes
}

// projection is what a volume has of the ConfigMap with files, and of the agent's Secret.
type projection struct{ plain, secret []corev1.KeyToPath }

func (p projection) sources(config string) []corev1.VolumeProjection {
	var sources []corev1.VolumeProjection
	if len(p.plain) > 0 {
		sources = append(sources, corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: filesName(config)}, Items: p.plain,
		}})
	}
	if len(p.secret) > 0 {
		sources = append(sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: environmentName(config)}, Items: p.secret,
		}})
	}
	return sources
}

func keyToPath(key, name string, mode int64) corev1.KeyToPath {
	return corev1.KeyToPath{Key: key, Path: name, Mode: new(int32(groupMode(mode)))}
}

// groupMode gives the group what the owner may do: a volume's files are the agent's through their group.
func groupMode(mode int64) int64 {
	const owner, bits = 0o700, 3
	return mode | mode&owner>>bits
}

func (b blueprint) hasVolume(name string) bool {
	return slices.ContainsFunc(b.fileVolumes(), func(v corev1.Volume) bool { return v.Name == name })
}

// fileMounts are those of the agent's container.
func (b blueprint) fileMounts() []corev1.VolumeMount {
	if !b.hasVolume(configVolume) {
		return nil
	}
	return []corev1.VolumeMount{{Name: configVolume, MountPath: dataplane.ConfigPath, ReadOnly: true}}
}

// seeds is the container that writes files to the agent's volume before the others start; none without such files. It
// runs the platform's image: the agent's may have no program for that.
func (b blueprint) seeds() []corev1.Container {
	if !b.hasVolume(seedVolume) {
		return nil
	}
	return []corev1.Container{{
		Name: seedName, Image: b.frontImage.Reference, Command: []string{frontCommand, dataplane.SeedArg},
		Env: []corev1.EnvVar{
			{Name: dataplane.EnvDataDir, Value: dataplane.DefaultDataPath},
			{Name: dataplane.EnvSeedDir, Value: seedPath},
		},
		Resources: frontResources(),
		VolumeMounts: []corev1.VolumeMount{
			{Name: volumeName, MountPath: dataplane.DefaultDataPath},
			{Name: seedVolume, MountPath: seedPath, ReadOnly: true},
		},
		SecurityContext: restricted(),
	}}
}
