package gke

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
)

func TestExplain_MapsErrorsOfTheAPIServer(t *testing.T) {
	t.Parallel()
	const canary = "canary-91ab"
	group := schema.GroupResource{Resource: "things"}
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Thing"}, agentName,
		field.ErrorList{
			field.Invalid(field.NewPath("spec", "image"), canary, "is wrong"),
			field.Required(field.NewPath("spec", "name"), ""),
		})
	quota := apierrors.NewForbidden(group, volumeName,
		errors.New("exceeded quota: agent, requested: persistentvolumeclaims=1"))
	terminates := apierrors.NewForbidden(group, agentName, errors.New("namespace is being terminated"))
	terminates.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	slow := apierrors.NewTooManyRequests("later", 7)
	for name, test := range map[string]struct {
		err       error
		permanent bool
		code      string
		after     time.Duration
	}{
		"invalid": {err: invalid, permanent: true, code: agent.CodeObjectRejected},
		"bad request": {
			err: apierrors.NewBadRequest("no: " + canary), permanent: true,
			code: agent.CodeObjectRejected,
		},
		"method": {
			err: apierrors.NewMethodNotSupported(group, "patch"), permanent: true,
			code: agent.CodeObjectRejected,
		},
		"too large": {
			err: apierrors.NewRequestEntityTooLargeError(canary), permanent: true,
			code: agent.CodeObjectRejected,
		},
		"a name twice": {
			err: apierrors.NewInternalError(errors.New("failed to create typed patch object (n/x; v1, Kind=Thing): " +
				".env: duplicate entries for key [name=\"" + canary + "\"]")),
			permanent: true, code: agent.CodeObjectRejected,
		},
		"wrapped":     {err: fmt.Errorf("list: %w", invalid), permanent: true, code: agent.CodeObjectRejected},
		"quota":       {err: quota, code: codeQuotaExceeded},
		"terminating": {err: terminates, code: codeNamespaceTerminating},
		"no namespace": {
			err:  apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "x"),
			code: provisioning.CodeNamespaceMissing,
		},
		"no kind": {err: apierrors.NewNotFound(group, "x"), code: codeClusterUnavailable},
		"forbidden": {
			err:  apierrors.NewForbidden(group, "x", errors.New("no right")),
			code: codeClusterUnavailable,
		},
		"unauthorized": {err: apierrors.NewUnauthorized("who are you"), code: codeClusterUnavailable},
		"conflict": {
			err:  apierrors.NewConflict(group, "x", errors.New("changed")),
			code: codeClusterUnavailable,
		},
		"too many":       {err: slow, code: codeClusterUnavailable, after: 7 * time.Second},
		"internal":       {err: apierrors.NewInternalError(errors.New(canary)), code: codeClusterUnavailable},
		"unavailable":    {err: apierrors.NewServiceUnavailable("starting"), code: codeClusterUnavailable},
		"server timeout": {err: apierrors.NewTimeoutError("slow", 0), code: codeClusterUnavailable},
		"bad gateway": {err: apierrors.NewGenericServerResponse(http.StatusBadGateway, "patch", group, "x",
			canary, 0, true), code: codeClusterUnavailable},
		"network":           {err: errors.New("dial tcp: connection refused"), code: codeClusterUnavailable},
		"deadline":          {err: context.DeadlineExceeded, code: codeClusterUnavailable},
		"explained already": {err: terminating(), code: codeNamespaceTerminating},
		"explained, wrapped": {
			err:  fmt.Errorf("in passing: %w", missing("workload")),
			code: provisioning.CodeNamespaceMissing,
		},
	} {
		for _, kind := range []string{"Thing", "Secret", "ConfigMap"} {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				err := explain(test.err, core(kind, "agent-x", agentName))
				if test.permanent {
					wantPermanent(t, err, test.code)
				} else {
					wantUnavailable(t, err, test.code)
				}
				if kind != "Thing" && strings.Contains(err.Error(), canary) {
					t.Errorf("the error of a %s quotes what may be a secret: %v", kind, err)
				}
				var f *fault.Error
				if errors.As(err, &f) && (f.RetryAfter != test.after || strings.Contains(f.Detail, canary)) {
					t.Errorf("retry after %s, detail %q; want %s and nothing quoted", f.RetryAfter, f.Detail,
						test.after)
				}
				if errors.Is(test.err, context.DeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) {
					t.Error("the cause is lost")
				}
			})
		}
	}
	if err := explain(nil, core("Thing", "", "x")); err != nil {
		t.Errorf("nothing wrong: %v", err)
	}
}

// The message names the refused field. For objects without secrets it also gives the reason.
func TestExplain_NamesTheRefusedField(t *testing.T) {
	t.Parallel()
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Thing"}, agentName,
		field.ErrorList{
			field.Invalid(field.NewPath("spec", "image"), "a b", "is wrong"),
			field.TooLong(field.NewPath("data"), strings.Repeat("x", 5000), 10),
		})
	var p *provisioning.Permanent
	if err := explain(invalid, core("StatefulSet", "n", agentName)); !errors.As(err, &p) ||
		!strings.Contains(p.Message, "spec.image: Invalid value") {
		t.Errorf("error %v, want the field and the reason", err)
	}
	if err := explain(invalid, core("Secret", "n", agentName)); !errors.As(err, &p) ||
		!strings.Contains(p.Message, "spec.image; data") {
		t.Errorf("error %v, want the fields", err)
	}
	for range 3 {
		invalid.ErrStatus.Details.Causes = append(invalid.ErrStatus.Details.Causes, invalid.ErrStatus.Details.Causes...)
	}
	for i := range invalid.ErrStatus.Details.Causes {
		invalid.ErrStatus.Details.Causes[i].Message = strings.Repeat("é", 1000)
	}
	if err := explain(invalid, core("StatefulSet", "n", agentName)); !errors.As(err, &p) || len(p.Message) > maxReason+
		200 || strings.Contains(p.Message, "\uFFFD") {
		t.Errorf("a message of %d bytes, want at most %d and whole characters", len(p.Message), maxReason+200)
	}
}
