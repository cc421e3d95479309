package gke

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
)

// Codes of errors that more than one package may want to tell apart.
const (
	codeClusterUnavailable   = "cluster_unavailable"
	codeNamespaceTerminating = "namespace_terminating"
	codeQuotaExceeded        = "quota_exceeded"
	codeVolumeCannotGrow     = "volume_cannot_grow"
)

// maxReason bounds how much of the API server's text is passed on.
const maxReason = 600

// explain turns the error of a call about an object into the vocabulary of package provisioning:
//
//	400, 405, 413, 422             Permanent: the object itself is wrong
//	500, duplicate entries         Permanent: server-side apply says so of an object that is wrong
//	403, the namespace terminates  Unavailable, namespace_terminating
//	403, stale generation          Stale: see terraform/cell/fence.yaml
//	403, a class that cannot grow  Permanent, volume_cannot_grow: operators choose another class, or change it
//	403, exceeded quota            Unavailable, quota_exceeded: quota usage lags, and operators raise quotas
//	404 of the namespace           Unavailable, namespace_missing: provisioning begins again
//	401, 403, and all others       Unavailable, cluster_unavailable: operators may grant rights later
func explain(err error, t target) error {
	var known *fault.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	cause := fmt.Errorf("%s: %w", t, redact(err, t))
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return unavailable(cause)
	}
	s := status.Status()
	switch {
	case s.Code == http.StatusUnprocessableEntity, s.Code == http.StatusBadRequest,
		s.Code == http.StatusMethodNotAllowed, s.Code == http.StatusRequestEntityTooLarge,
		s.Code == http.StatusInternalServerError && strings.Contains(s.Message, "duplicate entries for key"):
		return &provisioning.Permanent{
			Code: agent.CodeObjectRejected, Cause: cause,
			Message: fmt.Sprintf("The cluster rejected the agent's %s %s: %s. Contact support.",
				t.gvk.Kind, t.name, reason(s, t)),
		}
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return terminating().WithCause(cause)
	case s.Code == http.StatusForbidden && staleGeneration.MatchString(s.Message):
		return stale(s.Message, cause)
	case s.Code == http.StatusForbidden && strings.Contains(s.Message, "must support resize"):
		return &provisioning.Permanent{
			Code: codeVolumeCannotGrow, Cause: cause,
			Message: "The storage class of the agent's volume does not let it grow. Contact support.",
		}
	case s.Code == http.StatusForbidden && strings.Contains(s.Message, "exceeded quota"):
		return fault.New(fault.Unavailable, codeQuotaExceeded,
			"The quota of the agent's namespace has no room for its %s.", t.gvk.Kind).WithCause(cause)
	case s.Code == http.StatusNotFound && s.Details != nil && s.Details.Kind == "namespaces":
		return missing("namespace").WithCause(cause)
	default:
		u := unavailable(cause)
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
			u.RetryAfter = time.Duration(seconds) * time.Second
		}
		return u
	}
}

// fromServer returns the error of a call about an object, unless the answer is not the API server's, or not about the
// object. Example: a proxy that does not reach the cluster answers 404, which client-go takes for "not found". Then the
// object may well exist, and 400 or 422 does not say that it is wrong.
func fromServer(err error, t target) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err
	}
	s := status.Status()
	foreign := apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
	switch s.Code {
	case http.StatusNotFound: // of an API that is not served, too
		foreign = foreign || s.Details == nil || s.Details.Kind == ""
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusConflict, http.StatusGone,
		http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
	default: // explain does not take it for one about the object
		foreign = false
	}
	if !foreign {
		return err
	}
	return unavailable(fmt.Errorf("%s: the answer %d does not say what the API server knows of it", t, s.Code))
}

// staleGeneration matches the message of the admission policy in terraform/cell/fence.yaml.
var staleGeneration = regexp.MustCompile(`stale generation: the object has generation (\d+)`)

func stale(message string, cause error) error {
	generation, err := strconv.ParseInt(staleGeneration.FindStringSubmatch(message)[1], 10, 64)
	if err != nil {
		return unavailable(cause)
	}
	return &provisioning.Stale{Generation: generation, Cause: cause}
}

// unavailable is an error of the way to the API server, or of the server itself.
func unavailable(cause error) *fault.Error {
	return fault.New(fault.Unavailable, codeClusterUnavailable,
		"The agent's cluster is temporarily unavailable. Retry.").WithCause(cause)
}

func terminating() *fault.Error {
	return fault.New(fault.Unavailable, codeNamespaceTerminating,
		"The agent's previous namespace is still being deleted. Retry in a minute.")
}

// missing says that something that was made is no longer there.
func missing(what string) *fault.Error {
	return fault.New(fault.Unavailable, provisioning.CodeNamespaceMissing,
		"The agent's %s no longer exists on its cluster. Provisioning starts again.", what)
}

// quotaPending reports whether a call may have failed only because a quota that has just been made or raised isn't
// worked out yet. That takes milliseconds. A quota may also have no room, so a raised one is waited for less long.
func quotaPending(err error, wait time.Duration) bool {
	if !apierrors.IsForbidden(err) {
		return false
	}
	return strings.Contains(err.Error(), "status unknown for quota") ||
		wait < maxRaisedWait && strings.Contains(err.Error(), "exceeded quota")
}

// confidential reports whether objects of the kind hold values that must not appear in an error. The API server quotes
// what it refuses.
func confidential(t target) bool { return t.gvk.Kind == "Secret" || t.gvk.Kind == "ConfigMap" }

// redact removes the API server's text from its error about a confidential object. What is wrong, and in which field,
// stays.
func redact(err error, t target) error {
	var status apierrors.APIStatus
	if !confidential(t) || !errors.As(err, &status) {
		return err
	}
	s := status.Status()
	return fmt.Errorf("%d %s: %s", s.Code, s.Reason, reason(s, t))
}

// reason is what the API server says is wrong with an object.
func reason(s metav1.Status, t target) string {
	var causes []metav1.StatusCause
	if s.Details != nil {
		causes = s.Details.Causes
	}
	parts := make([]string, 0, len(causes))
	for _, c := range causes {
		part := c.Field
		if !confidential(t) {
			part = strings.TrimPrefix(part+": "+c.Message, ": ")
		}
		if part != "" {
			parts = append(parts, part)
		}
	}
	text := strings.Join(parts, "; ")
	switch {
	case text == "" && confidential(t):
		text = "no field named"
	case text == "":
		text = s.Message
	}
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "..."
	}
	return text
}
