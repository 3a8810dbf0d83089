// An operator as controller-runtime's users write it: a type of its own, a manager with a cache, a reconciler. Each
// feature is tried on its own; what was found goes to the file that PEER_RESULTS names, one JSON line per feature.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	extensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// Where the objects of all steps are.
const namespace = "controller-runtime"

type operator struct {
	config  *rest.Config
	scheme  *runtime.Scheme
	direct  client.WithWatch
	manager ctrl.Manager
}

func main() {
	log.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run() error {
	o, err := connect()
	if err != nil {
		return err
	}
	for _, step := range []struct {
		feature string
		try     func(context.Context) error
	}{
		{"custom resources", o.define},
		{"CEL rules", o.rules},
		{"controller", o.reconcile},
		{"informer, streaming list", o.cached},
		{"status subresource", o.status},
		{"server-side apply", o.apply},
		{"events", o.events},
		{"metadata only", o.metadata},
		{"merge patch", o.mergePatch},
		{"strategic merge patch", o.strategicMergePatch},
		{"conflict and retry", o.conflict},
		{"finalizers", o.finalizers},
		{"owners and garbage collection", o.owners},
	} {
		if err := report(step.feature, step.try); err != nil {
			return err
		}
	}
	return nil
}

func connect() (*operator, error) {
	configured, err := config.GetConfig()
	if err != nil {
		return nil, err
	}
	all := runtime.NewScheme()
	if err = scheme.AddToScheme(all); err != nil {
		return nil, err
	}
	if err = extensionsv1.AddToScheme(all); err != nil {
		return nil, err
	}
	addToScheme(all)
	direct, err := client.NewWithWatch(configured, client.Options{Scheme: all})
	if err != nil {
		return nil, err
	}
	return &operator{config: configured, scheme: all, direct: direct}, nil
}

func key(name string) client.ObjectKey { return client.ObjectKey{Namespace: namespace, Name: name} }

func (o *operator) define(ctx context.Context) error {
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := o.direct.Create(ctx, space); err != nil {
		return err
	}
	if err := o.direct.Create(ctx, definition()); err != nil {
		return err
	}
	return eventually(ctx, "the type to be served", func() (bool, error) {
		var list GreetingList
		return o.direct.List(ctx, &list) == nil, nil
	})
}

func (o *operator) greet(ctx context.Context, name, text string) error {
	return o.direct.Create(ctx, &Greeting{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: GreetingSpec{Text: text}})
}

func (o *operator) rules(ctx context.Context) error {
	err := o.greet(ctx, "bad", "good bye")
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "that is no greeting") {
		return fmt.Errorf("against a rule: %v", err)
	}
	return nil
}

// Starts the manager, which goes on until the program ends.
func (o *operator) reconcile(ctx context.Context) error {
	var err error
	o.manager, err = ctrl.NewManager(o.config, ctrl.Options{
		Scheme:                 o.scheme,
		Metrics:                metrics.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		Cache:                  cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
	})
	if err != nil {
		return err
	}
	greeter := &reconciler{client: o.manager.GetClient(), recorder: o.manager.GetEventRecorder("greeter")}
	if err = greeter.start(o.manager); err != nil {
		return err
	}
	go func() {
		if err := o.manager.Start(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "error: the manager:", err)
		}
	}()
	if err = o.greet(ctx, "world", "hello"); err != nil {
		return err
	}
	if err = o.awaitText(ctx, "world", "hello"); err != nil {
		return err
	}
	var greeting Greeting
	if err = o.direct.Get(ctx, key("world"), &greeting); err != nil {
		return err
	}
	greeting.Spec.Times = 2
	if err = o.updated(ctx, &greeting); err != nil {
		return err
	}
	if err = o.awaitText(ctx, "world", "hellohello"); err != nil {
		return err
	}
	// What somebody else changes is put right.
	vandal := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "world", Namespace: namespace}}
	if err = o.direct.Delete(ctx, vandal); err != nil {
		return err
	}
	return o.awaitText(ctx, "world", "hellohello")
}

// Repeats the change on top of what the controller wrote meanwhile.
func (o *operator) updated(ctx context.Context, greeting *Greeting) error {
	wanted := greeting.Spec
	return eventually(ctx, "an update", func() (bool, error) {
		err := o.direct.Update(ctx, greeting)
		if !apierrors.IsConflict(err) {
			return err == nil, err
		}
		if err = o.direct.Get(ctx, client.ObjectKeyFromObject(greeting), greeting); err != nil {
			return false, err
		}
		greeting.Spec = wanted
		return false, nil
	})
}

func (o *operator) awaitText(ctx context.Context, name, text string) error {
	return eventually(ctx, fmt.Sprintf("%s to say %s", name, text), func() (bool, error) {
		var made corev1.ConfigMap
		err := o.direct.Get(ctx, key(name), &made)
		return err == nil && made.Data["text"] == text, client.IgnoreNotFound(err)
	})
}
