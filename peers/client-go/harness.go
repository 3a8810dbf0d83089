package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

// Long enough for a busy machine; what works takes far less.
const patience = 40 * time.Second

// A step that this server cannot be asked, because another program of Kubernetes would do it.
var errElsewhere = errors.New("done by kube-controller-manager")

// Tries a feature and writes down what came of it. PEER_ONLY names the one to try when looking into a failure.
func report(feature string, try func(context.Context) error) error {
	if only := os.Getenv("PEER_ONLY"); only != "" && only != feature {
		return nil
	}
	err := attempt(try)
	if errors.Is(err, errElsewhere) {
		return nil
	}
	finding := map[string]any{"feature": feature, "ok": err == nil}
	if err != nil {
		finding["error"] = err.Error()
	}
	line, err := json.Marshal(finding)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(os.Getenv("PEER_RESULTS"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.Write(append(line, '\n'))
	return err
}

func attempt(try func(context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v", panicked)
		}
	}()
	return try(ctx)
}

// Whether there are controllers behind the server; kube-apiserver alone has none.
func controllers() bool { return os.Getenv("PEER_SERVER") != "kube-apiserver" }

// An error unless what was found is what was expected.
func expect[T comparable](what string, found, expected T) error {
	if found != expected {
		return fmt.Errorf("%s: got %v, expected %v", what, found, expected)
	}
	return nil
}

// Asks until it is so.
func eventually(ctx context.Context, what string, is func() (bool, error)) error {
	for {
		done, err := is()
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("gave up waiting for %s", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
