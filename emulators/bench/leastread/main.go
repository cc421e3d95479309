// Command leastread is the least program that serves a function which reads Firestore: functions-framework, Firestore's
// library and one read of two documents, which is what a route of agents makes. Cold starts are compared with it.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"

	gcp "cloud.google.com/go/firestore"
	"github.com/GoogleCloudPlatform/functions-framework-go/funcframework"
	"github.com/GoogleCloudPlatform/functions-framework-go/functions"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func main() {
	if err := serve(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context) error {
	conn, err := grpc.NewClient("passthrough:///"+os.Getenv("FIRESTORE_EMULATOR_HOST"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("connect to Firestore: %w", err)
	}
	db, err := gcp.NewClient(ctx, os.Getenv("GOOGLE_CLOUD_PROJECT"), option.WithGRPCConn(conn))
	if err != nil {
		return fmt.Errorf("open Firestore: %w", err)
	}
	agents := db.Collection("agents")
	functions.HTTP("Hello", func(w http.ResponseWriter, r *http.Request) {
		found, err := db.GetAll(r.Context(), []*gcp.DocumentRef{agents.Doc("a"), agents.Doc("b")})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, len(found))
	})
	return funcframework.StartHostPort("127.0.0.1", os.Getenv("PORT"))
}
