package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/util/retry"
)

func (c *clients) conflicts(ctx context.Context) error {
	maps := c.typed.CoreV1().ConfigMaps(namespace)
	stale, err := maps.Create(ctx, configMap("conflict", map[string]string{"n": ""}), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	newer := stale.DeepCopy()
	newer.Data["n"] = "x"
	if _, err = maps.Update(ctx, newer, metav1.UpdateOptions{}); err != nil {
		return err
	}
	stale.Data["n"] = "y"
	if _, err = maps.Update(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		return fmt.Errorf("an update of an old version: %v", err)
	}
	failures := make(chan error)
	for range 4 {
		go func() {
			failures <- retry.RetryOnConflict(retry.DefaultBackoff, func() error {
				read, err := maps.Get(ctx, "conflict", metav1.GetOptions{})
				if err != nil {
					return err
				}
				read.Data["n"] += "x"
				_, err = maps.Update(ctx, read, metav1.UpdateOptions{})
				return err
			})
		}()
	}
	for range 4 {
		err = errors.Join(err, <-failures)
	}
	if err != nil && !apierrors.IsConflict(err) {
		return err
	}
	read, err := maps.Get(ctx, "conflict", metav1.GetOptions{})
	if err != nil {
		return err
	}
	return expect("n", read.Data["n"], "xxxxx")
}

func (c *clients) dryRun(ctx context.Context) error {
	maps := c.typed.CoreV1().ConfigMaps(namespace)
	made, err := maps.Create(ctx, configMap("dry", nil), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return err
	}
	if made.UID == "" {
		return fmt.Errorf("a dry run sets no uid")
	}
	if _, err = maps.Get(ctx, "dry", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("a dry run left something behind: %v", err)
	}
	return nil
}

func (c *clients) fieldValidation(ctx context.Context) error {
	maps := c.dynamic.Resource(configMaps).Namespace(namespace)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "strict"},
		"date": map[string]any{"a": "1"},
	}}
	_, err := maps.Create(ctx, object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), `unknown field "date"`) {
		return fmt.Errorf("a field that is unknown: %v", err)
	}
	_, err = maps.Create(ctx, object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationIgnore})
	return err
}

func (c *clients) patch(ctx context.Context, name string, kind types.PatchType, patch, expected string) error {
	maps := c.typed.CoreV1().ConfigMaps(namespace)
	if _, err := maps.Create(ctx, configMap(name, map[string]string{"a": "1", "b": "2"}), metav1.CreateOptions{}); err != nil {
		return err
	}
	patched, err := maps.Patch(ctx, name, kind, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return err
	}
	return expect("data", fmt.Sprint(patched.Data), expected)
}

func (c *clients) jsonPatch(ctx context.Context) error {
	patch := `[{"op":"test","path":"/data/a","value":"1"},{"op":"remove","path":"/data/b"},{"op":"add","path":"/data/c","value":"3"}]`
	return c.patch(ctx, "json-patch", types.JSONPatchType, patch, "map[a:1 c:3]")
}

func (c *clients) mergePatch(ctx context.Context) error {
	return c.patch(ctx, "merge-patch", types.MergePatchType, `{"data":{"b":null,"c":"3"}}`, "map[a:1 c:3]")
}

// Lists with keys are merged, and directives are obeyed.
func (c *clients) strategicMergePatch(ctx context.Context) error {
	err := c.patch(ctx, "strategic", types.StrategicMergePatchType, `{"data":{"b":null,"c":"3"}}`, "map[a:1 c:3]")
	if err != nil {
		return err
	}
	deployments := c.typed.AppsV1().Deployments(namespace)
	if _, err = deployments.Create(ctx, deployment("strategic"), metav1.CreateOptions{}); err != nil {
		return err
	}
	patch := `{"spec":{"template":{"spec":{"containers":[{"name":"main","env":[{"name":"B","value":"3"},
		{"name":"A","$patch":"delete"}]},{"name":"side","image":"registry.example/side:1"}]}}}}`
	patched, err := deployments.Patch(ctx, "strategic", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return err
	}
	found := ""
	for _, container := range patched.Spec.Template.Spec.Containers {
		found += fmt.Sprint(container.Name, container.Env, len(container.Ports), " ")
	}
	return expect("containers", found, "main[{B 3 nil}] 1 side[] 0 ")
}

// Two appliers of different fields, one of whom takes back what it had.
func (c *clients) apply(ctx context.Context) error {
	maps := c.typed.CoreV1().ConfigMaps(namespace)
	one := metav1.ApplyOptions{FieldManager: "one"}
	two := metav1.ApplyOptions{FieldManager: "two"}
	mine := coreapply.ConfigMap("applied", namespace).WithData(map[string]string{"a": "1", "b": "2"})
	first, err := maps.Apply(ctx, mine, one)
	if err != nil {
		return err
	}
	again, err := maps.Apply(ctx, mine, one)
	if err != nil {
		return err
	}
	if err = expect("version after the same again", again.ResourceVersion, first.ResourceVersion); err != nil {
		return err
	}
	if _, err = maps.Apply(ctx, coreapply.ConfigMap("applied", namespace).WithData(map[string]string{"c": "3"}), two); err != nil {
		return err
	}
	less, err := maps.Apply(ctx, coreapply.ConfigMap("applied", namespace).WithData(map[string]string{"a": "1"}), one)
	if err != nil {
		return err
	}
	if err = expect("data", fmt.Sprint(less.Data), "map[a:1 c:3]"); err != nil {
		return err
	}
	if err = expect("managers", len(less.ManagedFields), 2); err != nil {
		return err
	}
	extracted, err := coreapply.ExtractConfigMap(less, "one")
	if err != nil {
		return err
	}
	if err = expect("extracted", fmt.Sprint(extracted.Data), "map[a:1]"); err != nil {
		return err
	}
	return c.applyList(ctx)
}

// A list with keys: two appliers own one container each.
func (c *clients) applyList(ctx context.Context) error {
	deployments := c.typed.AppsV1().Deployments(namespace)
	labels := map[string]string{"app": "applied"}
	with := func(container *coreapply.ContainerApplyConfiguration) *appsapply.DeploymentApplyConfiguration {
		return appsapply.Deployment("applied", namespace).WithSpec(appsapply.DeploymentSpec().
			WithSelector(metaapply.LabelSelector().WithMatchLabels(labels)).
			WithTemplate(coreapply.PodTemplateSpec().WithLabels(labels).
				WithSpec(coreapply.PodSpec().WithContainers(container))))
	}
	main := coreapply.Container().WithName("main").WithImage("registry.example/main:1").
		WithPorts(coreapply.ContainerPort().WithContainerPort(80))
	side := coreapply.Container().WithName("side").WithImage("registry.example/side:1")
	if _, err := deployments.Apply(ctx, with(main), metav1.ApplyOptions{FieldManager: "one"}); err != nil {
		return err
	}
	both, err := deployments.Apply(ctx, with(side), metav1.ApplyOptions{FieldManager: "two"})
	if err != nil {
		return err
	}
	return expect("containers", len(both.Spec.Template.Spec.Containers), 2)
}

func (c *clients) applyConflicts(ctx context.Context) error {
	maps := c.typed.CoreV1().ConfigMaps(namespace)
	with := func(value string) *coreapply.ConfigMapApplyConfiguration {
		return coreapply.ConfigMap("contested", namespace).WithData(map[string]string{"a": value})
	}
	if _, err := maps.Apply(ctx, with("1"), metav1.ApplyOptions{FieldManager: "one"}); err != nil {
		return err
	}
	_, err := maps.Apply(ctx, with("2"), metav1.ApplyOptions{FieldManager: "two"})
	if !apierrors.IsConflict(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) ||
		!strings.Contains(err.Error(), `conflict with "one": .data.a`) {
		return fmt.Errorf("taking what another owns: %v", err)
	}
	taken, err := maps.Apply(ctx, with("2"), metav1.ApplyOptions{FieldManager: "two", Force: true})
	if err != nil {
		return err
	}
	return expect("data", fmt.Sprint(taken.Data), "map[a:2]")
}

func (c *clients) finalizers(ctx context.Context) error {
	maps := c.typed.CoreV1().ConfigMaps(namespace)
	made := configMap("finalized", nil)
	made.Finalizers = []string{"peers.example/hold"}
	if _, err := maps.Create(ctx, made, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := maps.Delete(ctx, "finalized", metav1.DeleteOptions{}); err != nil {
		return err
	}
	held, err := maps.Get(ctx, "finalized", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if held.DeletionTimestamp == nil {
		return fmt.Errorf("no deletion timestamp")
	}
	held.Finalizers = nil
	if _, err = maps.Update(ctx, held, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if _, err = maps.Get(ctx, "finalized", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("still there without finalizers: %v", err)
	}
	return nil
}

func (c *clients) owners(ctx context.Context) error {
	if !controllers() {
		return errElsewhere
	}
	maps := c.typed.CoreV1().ConfigMaps(namespace)
	owner, err := maps.Create(ctx, configMap("owner", nil), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	owned := configMap("owned", nil)
	owned.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
	if _, err = maps.Create(ctx, owned, metav1.CreateOptions{}); err != nil {
		return err
	}
	foreground := metav1.DeletePropagationForeground
	if err = maps.Delete(ctx, "owner", metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		return err
	}
	for _, name := range []string{"owned", "owner"} {
		err = eventually(ctx, name+" to go", func() (bool, error) {
			_, err := maps.Get(ctx, name, metav1.GetOptions{})
			return apierrors.IsNotFound(err), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *clients) status(ctx context.Context) error {
	deployments := c.typed.AppsV1().Deployments(namespace)
	made, err := deployments.Create(ctx, deployment("status"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made.Spec.Paused = true
	made.Status.ObservedGeneration = 1
	made.Status.Replicas = 1
	updated, err := deployments.UpdateStatus(ctx, made, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	if updated.Spec.Paused || updated.Status.Replicas != 1 || updated.Generation != 1 {
		return fmt.Errorf("an update of the status made %v %v", updated.Spec.Paused, updated.Status)
	}
	updated.Spec.Paused = true
	updated.Status.Replicas = 5
	changed, err := deployments.Update(ctx, updated, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	if !changed.Spec.Paused || changed.Status.Replicas != 1 || changed.Generation != 2 {
		return fmt.Errorf("an update made %v %v", changed.Spec.Paused, changed.Status)
	}
	return nil
}

func (c *clients) scale(ctx context.Context) error {
	deployments := c.typed.AppsV1().Deployments(namespace)
	if _, err := deployments.Create(ctx, deployment("scaled"), metav1.CreateOptions{}); err != nil {
		return err
	}
	scale, err := deployments.GetScale(ctx, "scaled", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err = expect("selector", scale.Status.Selector, "app=scaled"); err != nil {
		return err
	}
	scale.Spec.Replicas = 7
	if _, err = deployments.UpdateScale(ctx, "scaled", scale, metav1.UpdateOptions{}); err != nil {
		return err
	}
	read, err := deployments.Get(ctx, "scaled", metav1.GetOptions{})
	if err != nil {
		return err
	}
	return expect("replicas", *read.Spec.Replicas, 7)
}
