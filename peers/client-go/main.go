// A program as users of client-go write it: it knows nothing of the server but its kubeconfig. Each feature is tried
// on its own, and what was found goes to the file that PEER_RESULTS names, one JSON line per feature.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Where the objects of all steps are.
const namespace = "client-go"

// The same server through every kind of client that there is.
type clients struct {
	config  *rest.Config
	traffic *traffic
	// Sends and takes protobuf, which is what a clientset does unless told otherwise.
	typed kubernetes.Interface
	// The same in JSON.
	json       kubernetes.Interface
	dynamic    dynamic.Interface
	metadata   metadata.Interface
	extensions apiextensions.Interface
}

func main() {
	c, err := connect()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	if len(os.Args) > 1 {
		if err := c.informer(os.Args[1] == "streaming"); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		return
	}
	all := []struct {
		feature string
		try     func(context.Context) error
	}{
		{"discovery", c.discovery},
		{"OpenAPI", c.openAPI},
		{"create, get, update, delete", c.objects},
		{"protobuf", c.protobuf},
		{"dynamic objects", c.dynamicObjects},
		{"metadata only", c.metadataOnly},
		{"tables", c.tables},
		{"pages", c.pages},
		{"selectors", c.selectors},
		{"watch", c.watch},
		{"informer, list and watch", inProcess("listing", "false")},
		{"informer, streaming list", inProcess("streaming", "true")},
		{"conflict and retry", c.conflicts},
		{"dry run", c.dryRun},
		{"field validation", c.fieldValidation},
		{"JSON patch", c.jsonPatch},
		{"merge patch", c.mergePatch},
		{"strategic merge patch", c.strategicMergePatch},
		{"server-side apply", c.apply},
		{"apply conflicts", c.applyConflicts},
		{"finalizers", c.finalizers},
		{"owners and garbage collection", c.owners},
		{"status subresource", c.status},
		{"scale subresource", c.scale},
		{"custom resources", c.customResources},
		{"CEL rules", c.celRules},
		{"events", c.events},
		{"leader election", c.leaderElection},
		{"namespaces", c.namespaces},
		{"tokens", c.tokens},
		{"access reviews", c.accessReviews},
		{"certificate requests", c.certificateRequests},
	}
	for _, step := range all {
		if err := report(step.feature, step.try); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
	}
}

func connect() (*clients, error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, err
	}
	c := &clients{config: config, traffic: &traffic{}}
	config.QPS, config.Burst = 1000, 1000
	config.Wrap(c.traffic.follow)
	inJSON := rest.CopyConfig(config)
	inJSON.ContentType, inJSON.AcceptContentTypes = "application/json", "application/json"
	if c.typed, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if c.json, err = kubernetes.NewForConfig(inJSON); err != nil {
		return nil, err
	}
	if c.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	if c.metadata, err = metadata.NewForConfig(config); err != nil {
		return nil, err
	}
	if c.extensions, err = apiextensions.NewForConfig(config); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, err = c.json.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil && len(os.Args) == 1 {
		return nil, fmt.Errorf("make a namespace: %w", err)
	}
	return c, nil
}
