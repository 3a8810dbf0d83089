package main

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const finalizer = "peers.example/farewell"

// Keeps a ConfigMap of the same name for each Greeting, and a second one when the Greeting has gone.
type reconciler struct {
	client   client.Client
	recorder events.EventRecorder
}

func (r *reconciler) start(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).For(&Greeting{}).Owns(&corev1.ConfigMap{}).Complete(r)
}

// Reconcile makes what is wanted, or cleans up.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var greeting Greeting
	if err := r.client.Get(ctx, request.NamespacedName, &greeting); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !greeting.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.farewell(ctx, &greeting)
	}
	if controllerutil.AddFinalizer(&greeting, finalizer) {
		return ctrl.Result{}, r.client.Update(ctx, &greeting)
	}
	if err := r.apply(ctx, &greeting); err != nil {
		return ctrl.Result{}, fmt.Errorf("apply: %w", err)
	}
	return ctrl.Result{}, r.report(ctx, &greeting)
}

func (r *reconciler) apply(ctx context.Context, greeting *Greeting) error {
	wanted := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: greeting.Name, Namespace: greeting.Namespace},
		Data:       map[string]string{"text": strings.Repeat(greeting.Spec.Text, greeting.Spec.Times)},
	}
	if err := controllerutil.SetControllerReference(greeting, wanted, r.client.Scheme()); err != nil {
		return err
	}
	return r.client.Patch(ctx, wanted, client.Apply, client.FieldOwner("greeter"), client.ForceOwnership)
}

func (r *reconciler) report(ctx context.Context, greeting *Greeting) error {
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Greeted", ObservedGeneration: greeting.Generation}
	if !meta.SetStatusCondition(&greeting.Status.Conditions, ready) && greeting.Status.ObservedGeneration == greeting.Generation {
		return nil
	}
	greeting.Status.ObservedGeneration = greeting.Generation
	if err := r.client.Status().Update(ctx, greeting); err != nil {
		return fmt.Errorf("update the status: %w", err)
	}
	r.recorder.Eventf(greeting, nil, corev1.EventTypeNormal, "Greeted", "Greet", "said it %d times", greeting.Spec.Times)
	return nil
}

func (r *reconciler) farewell(ctx context.Context, greeting *Greeting) error {
	if !controllerutil.RemoveFinalizer(greeting, finalizer) {
		return nil
	}
	last := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: greeting.Name + "-gone", Namespace: greeting.Namespace}}
	if err := r.client.Create(ctx, last); client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	return r.client.Update(ctx, greeting)
}
