package podworker

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// expand replaces references to variables, such as $(NAME). References to unknown variables stay, and $$ is a $.
func expand(text string, values map[string]string) string {
	var result strings.Builder
	for {
		before, after, found := strings.Cut(text, "$")
		result.WriteString(before)
		if !found {
			return result.String()
		}
		text = after
		name, rest, closed := strings.Cut(strings.TrimPrefix(after, "("), ")")
		value, known := values[name]
		switch {
		case strings.HasPrefix(after, "$"):
			result.WriteByte('$')
			text = after[1:]
		case strings.HasPrefix(after, "(") && closed && known:
			result.WriteString(value)
			text = rest
		case strings.HasPrefix(after, "(") && closed:
			result.WriteString("$(" + name + ")")
			text = rest
		default:
			result.WriteByte('$')
		}
	}
}

// fieldOf returns a field of a pod as a variable's value.
func fieldOf(pod *corev1.Pod, path string) (string, error) {
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "status.podIP", "status.podIPs":
		return pod.Status.PodIP, nil
	case "status.hostIP", "status.hostIPs":
		return pod.Status.HostIP, nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "metadata.labels":
		return lines(pod.Labels), nil
	case "metadata.annotations":
		return lines(pod.Annotations), nil
	}
	if key, ok := subscript(path, "metadata.labels"); ok {
		return pod.Labels[key], nil
	}
	if key, ok := subscript(path, "metadata.annotations"); ok {
		return pod.Annotations[key], nil
	}
	return "", fmt.Errorf("unsupported fieldPath: %s", path)
}

// subscript returns the key of a path such as metadata.labels['key'].
func subscript(path, of string) (key string, ok bool) {
	key, ok = strings.CutPrefix(path, of+"['")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(key, "']")
}

// lines returns a map as text with a line for each entry.
func lines(entries map[string]string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		all = append(all, fmt.Sprintf("%s=%q", key, entries[key]))
	}
	return strings.Join(all, "\n")
}

// resourceOf returns what a container requests or is limited to, in multiples of the selector's divisor, rounded up.
func resourceOf(c *corev1.Container, selector *corev1.ResourceFieldSelector) (string, error) {
	kind, name, _ := strings.Cut(selector.Resource, ".")
	var amounts corev1.ResourceList
	switch kind {
	case "limits":
		amounts = c.Resources.Limits
	case "requests":
		amounts = c.Resources.Requests
	default:
		return "", fmt.Errorf("unsupported container resource: %s", selector.Resource)
	}
	divisor := selector.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	amount := amounts[corev1.ResourceName(name)]
	quotient := amount.AsApproximateFloat64() / divisor.AsApproximateFloat64()
	if corev1.ResourceName(name) == corev1.ResourceCPU { // exact for thousandths of a CPU
		quotient = float64(amount.MilliValue()) / float64(divisor.MilliValue())
	}
	return strconv.FormatInt(int64(math.Ceil(quotient)), 10), nil
}
