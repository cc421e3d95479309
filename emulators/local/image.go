package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"agents.example/controlplane/emulators/images"
)

// buildImage builds the image of a recipe, and prints the file.
func buildImage(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "Usage: go run ./emulators image NAME@VERSION\n\nBuilds an image of an agent "+
			"runtime from packages of Debian and npm, and prints the file.\nThere are recipes for %s.\n",
			strings.Join(images.Recipes(), " and "))
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("image takes one argument, such as openclaw@2026.9.6")
	}
	source, _, err := images.ParseSource("recipe:" + flags.Arg(0))
	if err != nil {
		return err
	}
	file, err := images.Build(ctx, source, os.Stderr)
	if err != nil {
		return err
	}
	fmt.Println(file)
	return nil
}
