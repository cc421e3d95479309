package podworker

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// searchPath is the PATH of a container that declares none.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// program is what a container runs.
type program struct {
	path      string
	args, env []string
	dir       string
	// mounts are the directories of this machine that stand for paths of the container.
	mounts mounts
}

// program resolves what a container runs. An error is one that a kubelet reports as CreateContainerConfigError.
func (w *worker) program(ctx context.Context, c *corev1.Container) (program, error) {
	e := &environment{objects: w.runtime.options.Objects, pod: w.pod, port: w.port, values: map[string]string{
		"PATH": searchPath, "HOME": w.dir, "HOSTNAME": w.pod.Name,
	}}
	e.pod = w.pod.DeepCopy()
	e.pod.Status.PodIP, e.pod.Status.HostIP = w.address.String(), w.runtime.options.HostIP
	e.configs, e.secrets = map[string]*corev1.ConfigMap{}, map[string]*corev1.Secret{}
	data, err := w.mount(ctx, e, c)
	if err != nil {
		return program{}, err
	}
	if err := e.resolve(ctx, c); err != nil {
		return program{}, err
	}
	e.values["TMPDIR"] = w.dir
	if data != "" {
		e.values["DATA_DIR"] = data
	}
	p := program{
		dir: w.dir, mounts: e.mounts,
		path: filepath.Join(w.runtime.options.Images[c.Image], "entrypoint"),
	}
	if len(c.Command) > 0 {
		name := filepath.Base(expand(c.Command[0], e.values))
		p.path = filepath.Join(w.runtime.options.Images[c.Image], name)
		for _, arg := range c.Command[1:] {
			p.args = append(p.args, e.mounts.local(expand(arg, e.values)))
		}
	}
	for _, arg := range c.Args {
		p.args = append(p.args, e.mounts.local(expand(arg, e.values)))
	}
	for _, name := range slices.Sorted(maps.Keys(e.values)) {
		p.env = append(p.env, name+"="+e.values[name])
	}
	return p, os.MkdirAll(w.dir, 0o700)
}

// environment resolves the variables of a container as a kubelet does.
type environment struct {
	objects Objects
	pod     *corev1.Pod
	port    podPort
	mounts  mounts
	values  map[string]string
	configs map[string]*corev1.ConfigMap // read before
	secrets map[string]*corev1.Secret
}

func (e *environment) resolve(ctx context.Context, c *corev1.Container) error {
	for i := range c.EnvFrom {
		if err := e.addAll(ctx, &c.EnvFrom[i]); err != nil {
			return err
		}
	}
	for i := range c.Env {
		v := &c.Env[i]
		value := e.port.in(v.Name, e.mounts.local(expand(v.Value, e.values)))
		if v.ValueFrom != nil {
			var set bool
			var err error
			if value, set, err = e.from(ctx, c, v.ValueFrom); err != nil {
				return err
			} else if !set {
				continue
			}
		}
		e.values[v.Name] = value
	}
	return nil
}

// addAll adds all entries of a ConfigMap or Secret.
func (e *environment) addAll(ctx context.Context, source *corev1.EnvFromSource) error {
	if ref := source.ConfigMapRef; ref != nil {
		config, err := e.config(ctx, ref.Name, isTrue(ref.Optional))
		if err != nil {
			return err
		}
		for key, value := range config.Data {
			e.values[source.Prefix+key] = value
		}
	}
	if ref := source.SecretRef; ref != nil {
		secret, err := e.secret(ctx, ref.Name, isTrue(ref.Optional))
		if err != nil {
			return err
		}
		for key, value := range secret.Data {
			e.values[source.Prefix+key] = string(value)
		}
	}
	return nil
}

// from returns the value of a variable, and whether the variable is set: an optional one may be missing.
func (e *environment) from(ctx context.Context, c *corev1.Container, source *corev1.EnvVarSource) (value string,
	set bool, err error,
) {
	switch {
	case source.FieldRef != nil:
		value, err = fieldOf(e.pod, source.FieldRef.FieldPath)
		return value, true, err
	case source.ResourceFieldRef != nil:
		value, err = resourceOf(c, source.ResourceFieldRef)
		return value, true, err
	case source.ConfigMapKeyRef != nil:
		ref, optional := source.ConfigMapKeyRef, isTrue(source.ConfigMapKeyRef.Optional)
		config, err := e.config(ctx, ref.Name, optional)
		if err != nil {
			return "", false, err
		}
		value, set = config.Data[ref.Key]
		if !set && !optional {
			err = fmt.Errorf("couldn't find key %s in ConfigMap %s/%s", ref.Key, e.pod.Namespace, ref.Name)
		}
		return value, set, err
	case source.SecretKeyRef != nil:
		ref, optional := source.SecretKeyRef, isTrue(source.SecretKeyRef.Optional)
		secret, err := e.secret(ctx, ref.Name, optional)
		if err != nil {
			return "", false, err
		}
		data, set := secret.Data[ref.Key]
		if !set && !optional {
			err = fmt.Errorf("couldn't find key %s in Secret %s/%s", ref.Key, e.pod.Namespace, ref.Name)
		}
		return string(data), set, err
	}
	return "", false, fmt.Errorf("a variable has a source that the simulated kubelet does not know")
}

func (e *environment) config(ctx context.Context, name string, optional bool) (*corev1.ConfigMap, error) {
	if known := e.configs[name]; known != nil {
		return known, nil
	}
	config, err := e.objects.ConfigMap(ctx, e.pod.Namespace, name)
	if apierrors.IsNotFound(err) && optional {
		return &corev1.ConfigMap{}, nil
	}
	if err != nil {
		return nil, err // says: configmaps "name" not found
	}
	e.configs[name] = config
	return config, nil
}

func (e *environment) secret(ctx context.Context, name string, optional bool) (*corev1.Secret, error) {
	if known := e.secrets[name]; known != nil {
		return known, nil
	}
	secret, err := e.objects.Secret(ctx, e.pod.Namespace, name)
	if apierrors.IsNotFound(err) && optional {
		return &corev1.Secret{}, nil
	}
	if err != nil {
		return nil, err
	}
	e.secrets[name] = secret
	return secret, nil
}

func isTrue(b *bool) bool { return b != nil && *b }

// podPort is the port that a pod declares by a variable PORT, and the free one that it has instead.
type podPort struct{ declared, free int }

// declaredPort returns the port that the containers of a pod declare, or 0.
func declaredPort(pod *corev1.Pod) int {
	for i := range pod.Spec.Containers {
		for _, v := range pod.Spec.Containers[i].Env {
			if port, err := strconv.Atoi(v.Value); v.Name == "PORT" && err == nil {
				return port
			}
		}
	}
	return 0
}

// in returns the value of a variable of a container, which may be the port.
func (p podPort) in(name, value string) string {
	switch name {
	case "PORT", "AGENT_PORT", "AGENT_API_PORT":
		if p.declared != 0 && value == strconv.Itoa(p.declared) {
			return strconv.Itoa(p.free)
		}
	}
	return value
}

// of returns the port that a container listens on when the pod declares port.
func (p podPort) of(port int) int {
	if p.declared != 0 && port == p.declared {
		return p.free
	}
	return port
}
