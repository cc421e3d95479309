package registry

import (
	"encoding/json"
	"net/http"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// Patched returns the JSON of an object after a patch of any type but apply.
func Patched(kind types.PatchType, object any, patch []byte) ([]byte, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	switch kind {
	case types.JSONPatchType:
		var operations jsonpatch.Patch
		if operations, err = jsonpatch.DecodePatch(patch); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if text, err = operations.Apply(text); err != nil {
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "",
				schema.GroupResource{}, "",
				err.Error(), 0, false)
		}
	case types.MergePatchType:
		text, err = jsonpatch.MergePatch(text, patch)
	default:
		text, err = strategicpatch.StrategicMergePatch(text, patch, object)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return text, nil
}
