package secretmanageremu

import (
	"regexp"

	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	maxLabels          = 64
	maxAliases         = 50
	maxAnnotationBytes = 16 << 10
	maxEncoded         = 128 // bytes of a label key or value, or an annotation key
)

var (
	labelKey      = regexp.MustCompile(`^[\p{Ll}\p{Lo}][\p{Ll}\p{Lo}\p{N}_-]{0,62}$`)
	labelValue    = regexp.MustCompile(`^[\p{Ll}\p{Lo}\p{N}_-]{0,63}$`)
	annotationKey = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
	aliasName     = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,62}$`)
)

// validateNew validates a new secret, and refuses the fields that the emulator would otherwise ignore.
func validateNew(s *secretmanagerpb.Secret) error {
	if s.GetReplication().GetReplication() == nil {
		return status.Error(codes.InvalidArgument, "Field [secret.replication] is required.")
	}
	if managed := s.GetReplication().GetUserManaged(); managed != nil && len(managed.GetReplicas()) == 0 {
		return status.Error(codes.InvalidArgument, "Field [secret.replication.user_managed.replicas] is required.")
	}
	var refused error
	s.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		switch field.Name() {
		case "name", "create_time", "etag", "replication", "labels", "annotations", "version_aliases":
			return true
		default:
			refused = status.Errorf(codes.Unimplemented, "The emulator has no [secret.%s].", field.Name())
			return false
		}
	})
	if refused != nil {
		return refused
	}
	return validateChanged(s, 0)
}

// validateChanged validates the fields that a client may change; versions is the number of the newest version.
func validateChanged(s *secretmanagerpb.Secret, versions int) error {
	if err := validateLabels(s.GetLabels()); err != nil {
		return err
	}
	size := 0
	for key, value := range s.GetAnnotations() {
		if !annotationKey.MatchString(key) || len(key) > maxEncoded {
			return status.Errorf(codes.InvalidArgument, "The annotation key [%s] is invalid.", key)
		}
		size += len(key) + len(value)
	}
	if size >= maxAnnotationBytes {
		return status.Errorf(codes.InvalidArgument, "The annotations have %d bytes; fewer than %d are allowed.", size,
			maxAnnotationBytes)
	}
	if len(s.GetVersionAliases()) > maxAliases {
		return status.Errorf(codes.InvalidArgument, "There are %d version aliases; at most %d are allowed.",
			len(s.GetVersionAliases()), maxAliases)
	}
	for alias, n := range s.GetVersionAliases() {
		if !aliasName.MatchString(alias) || alias == "latest" || alias == "NEW" {
			return status.Errorf(codes.InvalidArgument, "The version alias [%s] is invalid.", alias)
		}
		if n < 1 || n > int64(versions) {
			return status.Errorf(codes.InvalidArgument,
				"The version alias [%s] names the version %d, which does not exist.", alias, n)
		}
	}
	return nil
}

func validateLabels(labels map[string]string) error {
	if len(labels) > maxLabels {
		return status.Errorf(codes.InvalidArgument, "There are %d labels; at most %d are allowed.", len(labels),
			maxLabels)
	}
	for key, value := range labels {
		if !labelKey.MatchString(key) || len(key) > maxEncoded {
			return status.Errorf(codes.InvalidArgument, "The label key [%s] is invalid.", key)
		}
		if !labelValue.MatchString(value) || len(value) > maxEncoded {
			return status.Errorf(codes.InvalidArgument, "The value of the label [%s] is invalid: [%s].", key, value)
		}
	}
	return nil
}
