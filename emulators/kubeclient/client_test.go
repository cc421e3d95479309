package kubeclient_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"agents.example/controlplane/emulators/kubeclient"
)

// received is a request that reached the server.
type received struct {
	method, path, query, contentType string
	body                             map[string]any
}

func TestApply_SendsTheObjectWithItsKind(t *testing.T) {
	t.Parallel()
	var got received
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = received{r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Get("Content-Type"), nil}
		if err := json.NewDecoder(r.Body).Decode(&got.body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(got.body)
	}))
	t.Cleanup(server.Close)
	client, err := kubeclient.New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Data: map[string]string{"k": "v"}}
	applied, err := client.ConfigMaps("n").Apply(t.Context(), config, "test")
	if err != nil || applied.Data["k"] != "v" {
		t.Fatalf("applied %+v, %v", applied, err)
	}
	if got.method != http.MethodPatch || got.path != "/api/v1/namespaces/n/configmaps/c" ||
		got.query != "fieldManager=test&force=true" || got.contentType != "application/apply-patch+yaml" {
		t.Errorf("request = %+v", got)
	}
	if got.body["kind"] != "ConfigMap" || got.body["apiVersion"] != "v1" {
		t.Errorf("applied object = %v, want one with its kind", got.body)
	}
	if config.Kind != "" {
		t.Error("Apply changes the caller's object")
	}
}

func TestFake_ListsWhatWasCreated(t *testing.T) {
	t.Parallel()
	client, err := kubeclient.NewFake()
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p"}}
	if _, err := client.Pods("n").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	list, err := client.Pods("n").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "p" {
		t.Errorf("pods = %+v, %v; want p", list, err)
	}
}
