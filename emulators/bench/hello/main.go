// Command hello is the least program that serves a function: functions-framework and one handler. Cold starts are
// compared with it.
package main

import (
	"io"
	"log"
	"net/http"
	"os"

	"github.com/GoogleCloudPlatform/functions-framework-go/funcframework"
	"github.com/GoogleCloudPlatform/functions-framework-go/functions"
)

func main() {
	functions.HTTP("Hello", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "Hello, World!") })
	if err := funcframework.StartHostPort("127.0.0.1", os.Getenv("PORT")); err != nil {
		log.Fatal(err)
	}
}
