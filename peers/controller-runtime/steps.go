package main

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The manager's client reads from the cache, which its informers fill.
func (o *operator) cached(ctx context.Context) error {
	return eventually(ctx, "the cache", func() (bool, error) {
		var list GreetingList
		if err := o.manager.GetClient().List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return false, err
		}
		return len(list.Items) == 1 && list.Items[0].Spec.Times == 2, nil
	})
}

func (o *operator) status(ctx context.Context) error {
	return eventually(ctx, "the status", func() (bool, error) {
		var greeting Greeting
		if err := o.direct.Get(ctx, key("world"), &greeting); err != nil {
			return false, err
		}
		return greeting.Status.ObservedGeneration == greeting.Generation && greeting.Generation == 2 &&
			meta.IsStatusConditionTrue(greeting.Status.Conditions, "Ready"), nil
	})
}

// The controller owns the text that it applied, and somebody else may add to it.
func (o *operator) apply(ctx context.Context) error {
	more := coreapply.ConfigMap("world", namespace).WithData(map[string]string{"more": "yes"})
	if err := o.direct.Apply(ctx, more, client.FieldOwner("somebody")); err != nil {
		return err
	}
	var made corev1.ConfigMap
	if err := o.direct.Get(ctx, key("world"), &made); err != nil {
		return err
	}
	managers := map[string]string{}
	for _, entry := range made.ManagedFields {
		managers[entry.Manager] = string(entry.Operation)
	}
	if managers["greeter"] != "Apply" || managers["somebody"] != "Apply" {
		return fmt.Errorf("managers: %v", managers)
	}
	theirs := coreapply.ConfigMap("world", namespace).WithData(map[string]string{"text": "mine"})
	if err := o.direct.Apply(ctx, theirs, client.FieldOwner("somebody")); !apierrors.IsConflict(err) {
		return fmt.Errorf("taking what the controller owns: %v", err)
	}
	return nil
}

func (o *operator) events(ctx context.Context) error {
	return eventually(ctx, "an event", func() (bool, error) {
		var list eventsv1.EventList
		if err := o.direct.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return false, err
		}
		for _, event := range list.Items {
			if event.Reason == "Greeted" && event.Regarding.Name == "world" && strings.HasPrefix(event.Note, "said it") {
				return true, nil
			}
		}
		return false, nil
	})
}

func (o *operator) metadata(ctx context.Context) error {
	one := &metav1.PartialObjectMetadata{}
	one.SetGroupVersionKind(groupVersion.WithKind("Greeting"))
	if err := o.direct.Get(ctx, key("world"), one); err != nil {
		return err
	}
	if err := expect("finalizers", strings.Join(one.Finalizers, " "), finalizer); err != nil {
		return err
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	if err := o.manager.GetClient().List(ctx, list, client.InNamespace(namespace)); err != nil {
		return err
	}
	for _, item := range list.Items {
		if item.Name == "world" && len(item.OwnerReferences) == 1 {
			return nil
		}
	}
	return fmt.Errorf("not in the cache of metadata: %v", list.Items)
}

func (o *operator) mergePatch(ctx context.Context) error {
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "merged", Namespace: namespace}, Data: map[string]string{"a": "1", "b": "2"}}
	if err := o.direct.Create(ctx, made); err != nil {
		return err
	}
	before := made.DeepCopy()
	delete(made.Data, "a")
	if err := o.direct.Patch(ctx, made, client.MergeFrom(before)); err != nil {
		return err
	}
	return expect("data", fmt.Sprint(made.Data), "map[b:2]")
}

func (o *operator) strategicMergePatch(ctx context.Context) error {
	labels := map[string]string{"app": "patched"}
	made := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "patched", Namespace: namespace},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a:1"}, {Name: "b", Image: "b:1"}}},
		}},
	}
	if err := o.direct.Create(ctx, made); err != nil {
		return err
	}
	before := made.DeepCopy()
	made.Spec.Template.Spec.Containers[1].Image = "b:2"
	if err := o.direct.Patch(ctx, made, client.StrategicMergeFrom(before)); err != nil {
		return err
	}
	containers := made.Spec.Template.Spec.Containers
	if len(containers) != 2 || containers[0].Image != "a:1" || containers[1].Image != "b:2" {
		return fmt.Errorf("containers: %v", containers)
	}
	return nil
}

func (o *operator) conflict(ctx context.Context) error {
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "contested", Namespace: namespace}}
	if err := o.direct.Create(ctx, made); err != nil {
		return err
	}
	stale := made.DeepCopy()
	made.Data = map[string]string{"a": "1"}
	if err := o.direct.Update(ctx, made); err != nil {
		return err
	}
	changed := stale.DeepCopy()
	changed.Data = map[string]string{"a": "2"}
	patch := client.MergeFromWithOptions(stale, client.MergeFromWithOptimisticLock{})
	if err := o.direct.Patch(ctx, changed, patch); !apierrors.IsConflict(err) {
		return fmt.Errorf("a patch of an old version: %v", err)
	}
	return nil
}

func (o *operator) finalizers(ctx context.Context) error {
	if err := o.direct.Delete(ctx, &Greeting{ObjectMeta: metav1.ObjectMeta{Name: "world", Namespace: namespace}}); err != nil {
		return err
	}
	err := eventually(ctx, "the last words", func() (bool, error) {
		err := o.direct.Get(ctx, key("world-gone"), &corev1.ConfigMap{})
		return err == nil, client.IgnoreNotFound(err)
	})
	if err != nil {
		return err
	}
	return eventually(ctx, "the greeting to go", func() (bool, error) {
		err := o.direct.Get(ctx, key("world"), &Greeting{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// What the greeting owned goes after it.
func (o *operator) owners(ctx context.Context) error {
	if !controllers() {
		return errElsewhere
	}
	if err := o.direct.Get(ctx, key("world-gone"), &corev1.ConfigMap{}); err != nil {
		return fmt.Errorf("the greeting has not gone: %w", err)
	}
	return eventually(ctx, "the text to go", func() (bool, error) {
		err := o.direct.Get(ctx, key("world"), &corev1.ConfigMap{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}
