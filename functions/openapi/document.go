package openapi

import "github.com/google/jsonschema-go/jsonschema"

// Prefixes of references to components.
const (
	schemaPrefix    = "#/components/schemas/"
	responsePrefix  = "#/components/responses/"
	headerPrefix    = "#/components/headers/"
	parameterPrefix = "#/components/parameters/"
)

// bearer is the name of the only security scheme.
const bearer = "bearer"

// The objects of OpenAPI 3.1 that this package uses. The order of the fields is the order in the document.
type (
	document struct {
		OpenAPI    string                           `json:"openapi"`
		Info       info                             `json:"info"`
		Servers    []server                         `json:"servers"`
		Security   []requirement                    `json:"security"`
		Tags       []group                          `json:"tags"`
		Paths      map[string]map[string]*operation `json:"paths"`
		Components components                       `json:"components"`
	}
	info struct {
		Title       string `json:"title"`
		Version     string `json:"version"`
		Description string `json:"description,omitempty"`
	}
	server struct {
		URL string `json:"url"`
	}
	requirement map[string][]string
	operation   struct {
		OperationID string   `json:"operationId"`
		Summary     string   `json:"summary"`
		Description string   `json:"description,omitempty"`
		Tags        []string `json:"tags"`
		Deprecated  bool     `json:"deprecated,omitempty"`
		// Sunset is the day after which a deprecated operation may be removed, in the form that tools for breaking
		// changes read.
		Sunset      string       `json:"x-sunset,omitempty"`
		Parameters  []any        `json:"parameters,omitempty"` // of parameter or reference
		RequestBody *requestBody `json:"requestBody,omitempty"`
		// Security is nil if the document's default applies, and empty if no token is needed.
		Security  *[]requirement `json:"security,omitempty"`
		Responses map[string]any `json:"responses"` // of response or reference
		Samples   []Sample       `json:"x-codeSamples,omitempty"`
	}
	parameter struct {
		Name        string             `json:"name"`
		In          string             `json:"in"`
		Description string             `json:"description,omitempty"`
		Required    bool               `json:"required,omitempty"`
		Schema      *jsonschema.Schema `json:"schema"`
	}
	requestBody struct {
		Required bool                 `json:"required,omitempty"`
		Content  map[string]mediaType `json:"content"`
	}
	mediaType struct {
		Schema  *jsonschema.Schema `json:"schema,omitempty"`
		Example any                `json:"example,omitempty"`
	}
	response struct {
		Description string               `json:"description"`
		Headers     map[string]any       `json:"headers,omitempty"` // of header or reference
		Content     map[string]mediaType `json:"content,omitempty"`
	}
	header struct {
		Description string             `json:"description"`
		Required    bool               `json:"required,omitempty"`
		Schema      *jsonschema.Schema `json:"schema"`
	}
	securityScheme struct {
		Type         string `json:"type"`
		Scheme       string `json:"scheme"`
		BearerFormat string `json:"bearerFormat"`
		Description  string `json:"description"`
	}
	components struct {
		Schemas         map[string]*jsonschema.Schema `json:"schemas"`
		Responses       map[string]response           `json:"responses,omitempty"`
		Parameters      map[string]parameter          `json:"parameters,omitempty"`
		Headers         map[string]header             `json:"headers,omitempty"`
		SecuritySchemes map[string]securityScheme     `json:"securitySchemes"`
	}
	reference struct {
		Ref string `json:"$ref"`
	}
)
