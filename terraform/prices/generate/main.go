// Command generate writes the tables of package prices into a document.
package main

import (
	"fmt"
	"os"

	"agents.example/controlplane/terraform/prices"
)

func main() {
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(file string) error {
	document, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	tables, err := prices.Tables()
	if err != nil {
		return err
	}
	text, err := prices.Insert(string(document), tables)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o600)
}
