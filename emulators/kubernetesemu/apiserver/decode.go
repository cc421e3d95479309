package apiserver

import (
	"fmt"
	"mime"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// decode reads an object of the type of into, which must be its kind, too. What it says about unknown fields is what
// the client asks for: an error, warnings or nothing.
func (s *Server) decode(c *call, into runtime.Object, body []byte) (runtime.Object, error) {
	want := into.GetObjectKind().GroupVersionKind()
	custom := c.target.kind != nil && c.target.kind.Custom // such a body names its kind
	media, _, err := mime.ParseMediaType(c.Header.Get("Content-Type"))
	if err != nil {
		media = runtime.ContentTypeJSON
	}
	switch {
	case media == runtime.ContentTypeProtobuf && custom:
		return nil, errMediaType([]string{runtime.ContentTypeJSON, runtime.ContentTypeYAML})
	case media == runtime.ContentTypeProtobuf:
		o, _, err := s.catalog.Codecs.UniversalDeserializer().Decode(body, &want, into)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if o.GetObjectKind().SetGroupVersionKind(want); o != into {
			return nil, errKind(want.Kind, fmt.Sprintf("%T", o))
		}
		return o, nil
	case media == runtime.ContentTypeYAML:
		if body, err = yaml.YAMLToJSON(body); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	case media != runtime.ContentTypeJSON && !strings.HasSuffix(media, "patch+json"):
		return nil, errMediaType([]string{
			runtime.ContentTypeJSON, runtime.ContentTypeYAML, runtime.ContentTypeProtobuf,
		})
	}
	var kind metav1.TypeMeta
	if err := json.UnmarshalCaseSensitivePreserveInts(body, &kind); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("couldn't get version/kind; json parse error: %v", err))
	}
	if got := kind.GroupVersionKind(); (kind.Kind != "" || custom) && got != want {
		return nil, errKind(want.Kind, got.String())
	}
	unknown, err := json.UnmarshalStrict(body, into)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", want.Kind,
			want.Version, want.Kind, err))
	}
	into.GetObjectKind().SetGroupVersionKind(want)
	return into, c.reportUnknown(unknown)
}

// reportUnknown tells the client of fields that the API does not have, or that were there twice.
func (c *call) reportUnknown(unknown []error) error {
	if len(unknown) == 0 {
		return nil
	}
	texts := make([]string, 0, len(unknown))
	for _, err := range unknown {
		texts = append(texts, err.Error())
	}
	switch c.URL.Query().Get("fieldValidation") {
	case metav1.FieldValidationIgnore:
	case metav1.FieldValidationStrict:
		return &strictError{"strict decoding error: " + strings.Join(texts, ", ")}
	default:
		for _, text := range texts {
			c.warn(text)
		}
	}
	return nil
}

func errKind(want, got string) error {
	return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): it is %s",
		want, got))
}

// errMediaType is the answer to a body in a format that the API does not read.
func errMediaType(accepted []string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
		Message: "the body of the request was in an unknown format - accepted media types include: " +
			strings.Join(accepted, ", "),
	}}
}
