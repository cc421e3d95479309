package apiserver

import (
	"errors"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	internalscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	listvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// listOptions reads the options of a list, a watch or the deletion of a collection.
func listOptions(query url.Values) (*internalversion.ListOptions, error) {
	o := &internalversion.ListOptions{}
	if err := internalscheme.ParameterCodec.DecodeParameters(query, metav1.SchemeGroupVersion, o); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if errs := listvalidation.ValidateListOptions(o, true); len(errs) > 0 {
		return nil, invalidOptions("ListOptions", errs)
	}
	if o.Continue != "" && o.ResourceVersion != "" && o.ResourceVersion != "0" {
		return nil, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
	}
	return o, nil
}

// checkWriteOptions refuses options that a request which changes something cannot have.
func checkWriteOptions(c *call, patch types.PatchType) error {
	query := c.URL.Query()
	switch c.verb {
	case "create":
		var o metav1.CreateOptions
		err := metav1.Convert_url_Values_To_v1_CreateOptions(&query, &o, nil)
		return optionsError("CreateOptions", err, validation.ValidateCreateOptions(&o))
	case "update":
		var o metav1.UpdateOptions
		err := metav1.Convert_url_Values_To_v1_UpdateOptions(&query, &o, nil)
		return optionsError("UpdateOptions", err, validation.ValidateUpdateOptions(&o))
	case "patch":
		var o metav1.PatchOptions
		err := metav1.Convert_url_Values_To_v1_PatchOptions(&query, &o, nil)
		return optionsError("PatchOptions", err, validation.ValidatePatchOptions(&o, patch))
	}
	return nil
}

func optionsError(kind string, err error, errs field.ErrorList) error {
	switch {
	case err != nil:
		return apierrors.NewBadRequest(err.Error())
	case len(errs) > 0:
		return invalidOptions(kind, errs)
	}
	return nil
}

func invalidOptions(kind string, errs field.ErrorList) error {
	return apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind(kind).GroupKind(), "", errs)
}

// isStrict reports whether an error is about fields that the API does not have, for a client that wants it to be.
func isStrict(err error) bool {
	var strict *strictError
	return errors.As(err, &strict)
}

// strictError is about fields that the API does not have.
type strictError struct{ text string }

// Error returns the text.
func (e *strictError) Error() string { return e.text }
