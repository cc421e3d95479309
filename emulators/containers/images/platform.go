package images

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// fits reports whether this machine runs images of a platform.
func fits(p v1.Platform) bool { return p.OS == "linux" && p.Architecture == runtime.GOARCH }

func wrongPlatform(platforms ...string) error {
	slices.Sort(platforms)
	here := "linux/" + runtime.GOARCH
	return fmt.Errorf("it is for %s, and this machine is %s; build it with docker build --platform %s",
		strings.Join(slices.Compact(platforms), ", "), here, here)
}

// checkPlatform reports an image that this machine cannot run.
func checkPlatform(image v1.Image) error {
	config, err := image.ConfigFile()
	if err != nil {
		return fmt.Errorf("read its configuration: %w", err)
	}
	if p := (v1.Platform{OS: config.OS, Architecture: config.Architecture}); !fits(p) {
		return wrongPlatform(p.String())
	}
	return nil
}

// fromIndex returns the image of an index for this machine. If the index has images of several names, named is one.
func fromIndex(index v1.ImageIndex, named string) (v1.Image, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	var fitting []v1.Descriptor
	var names, platforms []string
	for _, d := range manifest.Manifests {
		if d.Annotations["vnd.docker.reference.type"] != "" { // an attestation about an image
			continue
		}
		names = append(names, namesOf(d)...)
		if named != "" && !slices.ContainsFunc(namesOf(d), func(n string) bool { return sameName(named, n) }) {
			continue
		}
		if d.Platform != nil && !fits(*d.Platform) {
			platforms = append(platforms, d.Platform.String())
			continue
		}
		fitting = append(fitting, d)
	}
	switch {
	case len(fitting) > 1 && !alternatives(fitting):
		return nil, severalImages(names)
	case len(fitting) > 0 && fitting[0].MediaType.IsIndex():
		inner, err := index.ImageIndex(fitting[0].Digest)
		if err != nil {
			return nil, err
		}
		return fromIndex(inner, "")
	case len(fitting) > 0:
		return index.Image(fitting[0].Digest)
	case len(platforms) > 0:
		return nil, wrongPlatform(platforms...)
	case named != "":
		return nil, noImageNamed(named, names)
	default:
		return nil, errors.New("it holds no image")
	}
}

// alternatives reports whether an index describes one image for variants of a platform.
func alternatives(all []v1.Descriptor) bool {
	return !slices.ContainsFunc(all, func(d v1.Descriptor) bool { return d.Platform == nil || len(namesOf(d)) > 0 })
}

// namesOf returns the name that a builder wrote to an index: containerd's is complete, that of OCI often only a tag.
func namesOf(d v1.Descriptor) []string {
	for _, key := range []string{"io.containerd.image.name", "org.opencontainers.image.ref.name"} {
		if n := d.Annotations[key]; n != "" {
			return []string{n}
		}
	}
	return nil
}

// warnings says why the kubelet would not start a pod of an agent with an image from outside. The pod runs as the user
// of the image, and must not run as root.
func (s Source) warnings(image v1.Image) (warnings []string, err error) {
	if s.Tarball == "" && s.Reference == "" {
		return nil, nil
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read its configuration: %w", err)
	}
	const remedy = "; write USER 65532:65532 in its Dockerfile"
	name, _, _ := strings.Cut(file.Config.User, ":")
	switch id, err := strconv.ParseInt(name, 10, 64); {
	case name == "" || name == "root" || (err == nil && id == 0):
		warnings = append(warnings, "runs as root, and the kubelet starts no agent as root"+remedy)
	case err != nil:
		warnings = append(warnings, fmt.Sprintf(
			"has the user %q, and the kubelet starts no agent whose user is not a number"+remedy, name))
	}
	if len(file.Config.Entrypoint)+len(file.Config.Cmd) == 0 {
		warnings = append(warnings, "has neither ENTRYPOINT nor CMD, so no agent can start it")
	}
	return warnings, nil
}
