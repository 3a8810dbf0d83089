package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
}

// A deployment has most of what a message can have: nested messages, lists, maps, quantities, int-or-string, times.
func deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](2),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name:  "main",
					Image: "registry.example/main:1",
					Env:   []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}},
					Ports: []corev1.ContainerPort{{ContainerPort: 80}},
				}}},
			},
		},
	}
}

func (c *clients) objects(ctx context.Context) error { return crud(ctx, c.json, "json") }

// The same in protobuf; every body that has a kind must have been protobuf in both directions.
func (c *clients) protobuf(ctx context.Context) error {
	sent, err := c.traffic.during(func() error { return crud(ctx, c.typed, "protobuf") })
	if err != nil {
		return err
	}
	for _, request := range sent {
		if !strings.HasPrefix(request.received, "application/vnd.kubernetes.protobuf") {
			return fmt.Errorf("%s %s was answered in %s", request.method, request.path, request.received)
		}
		if request.method != "GET" && request.sent != "application/vnd.kubernetes.protobuf" {
			return fmt.Errorf("%s %s was sent in %s", request.method, request.path, request.sent)
		}
	}
	return nil
}

func crud(ctx context.Context, client kubernetes.Interface, prefix string) error {
	maps := client.CoreV1().ConfigMaps(namespace)
	name := prefix + "-object"
	made, err := maps.Create(ctx, configMap(name, map[string]string{"a": "1"}), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if made.UID == "" || made.ResourceVersion == "" || made.CreationTimestamp.IsZero() {
		return fmt.Errorf("what the server sets is missing: %v", made.ObjectMeta)
	}
	made.BinaryData = map[string][]byte{"raw": {0, 0xff, 0x7f}}
	if _, err = maps.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	read, err := maps.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if read.Data["a"] != "1" || string(read.BinaryData["raw"]) != "\x00\xff\x7f" {
		return fmt.Errorf("read back something else: %v", read)
	}
	if _, err = maps.Create(ctx, configMap(name, nil), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating it twice: %v", err)
	}
	uid := read.UID
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
	if err = maps.Delete(ctx, name, options); err != nil {
		return err
	}
	if _, err = maps.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading what was deleted: %v", err)
	}
	return otherKinds(ctx, client, prefix)
}

// Kinds of several groups: a secret, roles, a deployment.
func otherKinds(ctx context.Context, client kubernetes.Interface, prefix string) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: prefix}, StringData: map[string]string{"k": "v"}}
	sealed, err := client.CoreV1().Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if string(sealed.Data["k"]) != "v" || sealed.Type != corev1.SecretTypeOpaque {
		return fmt.Errorf("the secret holds something else")
	}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: prefix}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}}}
	if _, err = client.RbacV1().Roles(namespace).Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return err
	}
	deployed, err := client.AppsV1().Deployments(namespace).Create(ctx, deployment(prefix), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	container := deployed.Spec.Template.Spec.Containers[0]
	if deployed.Generation != 1 || container.ImagePullPolicy != corev1.PullIfNotPresent ||
		deployed.Spec.Strategy.RollingUpdate.MaxSurge.String() != "25%" {
		return fmt.Errorf("defaults are missing: %v", deployed.Spec)
	}
	list, err := client.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + prefix})
	if err != nil {
		return err
	}
	return expect("deployments", len(list.Items), 1)
}

func (c *clients) dynamicObjects(ctx context.Context) error {
	maps := c.dynamic.Resource(configMaps).Namespace(namespace)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"generateName": "dynamic-"},
		"data":     map[string]any{"a": "1"},
	}}
	made, err := maps.Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err = unstructured.SetNestedField(made.Object, "2", "data", "a"); err != nil {
		return err
	}
	if _, err = maps.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	read, err := maps.Get(ctx, made.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	value, _, _ := unstructured.NestedString(read.Object, "data", "a")
	if err = expect("data.a", value, "2"); err != nil {
		return err
	}
	return maps.Delete(ctx, made.GetName(), metav1.DeleteOptions{})
}

func (c *clients) metadataOnly(ctx context.Context) error {
	made := configMap("metadata", map[string]string{"big": strings.Repeat("x", 1000)})
	made.Labels = map[string]string{"step": "metadata"}
	if _, err := c.json.CoreV1().ConfigMaps(namespace).Create(ctx, made, metav1.CreateOptions{}); err != nil {
		return err
	}
	maps := c.metadata.Resource(configMaps).Namespace(namespace)
	one, err := maps.Get(ctx, "metadata", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err = expect("label", one.Labels["step"], "metadata"); err != nil {
		return err
	}
	list, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "step=metadata"})
	if err != nil {
		return err
	}
	if err = expect("items", len(list.Items), 1); err != nil {
		return err
	}
	patch := []byte(`{"metadata":{"labels":{"more":"yes"}}}`)
	patched, err := maps.Patch(ctx, "metadata", "application/merge-patch+json", patch, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	return expect("label", patched.Labels["more"], "yes")
}

func (c *clients) tables(ctx context.Context) error {
	data := map[string]string{"a": "1", "b": "2"}
	if _, err := c.json.CoreV1().ConfigMaps(namespace).Create(ctx, configMap("table", data), metav1.CreateOptions{}); err != nil {
		return err
	}
	body, err := c.json.CoreV1().RESTClient().Get().Namespace(namespace).Resource("configmaps").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(ctx).Raw()
	if err != nil {
		return err
	}
	var table metav1.Table
	if err = json.Unmarshal(body, &table); err != nil {
		return err
	}
	if len(table.ColumnDefinitions) != 3 || table.ColumnDefinitions[1].Name != "Data" {
		return fmt.Errorf("columns: %v", table.ColumnDefinitions)
	}
	for _, row := range table.Rows {
		if row.Cells[0] == "table" {
			return expect("data", fmt.Sprint(row.Cells[1]), "2")
		}
	}
	return fmt.Errorf("no row in %s", body)
}

func (c *clients) pages(ctx context.Context) error {
	maps := c.typed.CoreV1().ConfigMaps(namespace)
	for i := range 7 {
		made := configMap(fmt.Sprintf("page-%d", i), nil)
		made.Labels = map[string]string{"step": "pages"}
		if _, err := maps.Create(ctx, made, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	var names []string
	options := metav1.ListOptions{LabelSelector: "step=pages", Limit: 3}
	for {
		page, err := maps.List(ctx, options)
		if err != nil {
			return err
		}
		for _, item := range page.Items {
			names = append(names, item.Name)
		}
		if options.Continue = page.Continue; options.Continue == "" {
			break
		}
	}
	return expect("names", strings.Join(names, " "), "page-0 page-1 page-2 page-3 page-4 page-5 page-6")
}

func (c *clients) selectors(ctx context.Context) error {
	maps := c.typed.CoreV1().ConfigMaps(namespace)
	for i, tier := range []string{"front", "back", ""} {
		made := configMap(fmt.Sprintf("selected-%d", i), nil)
		made.Labels = map[string]string{"step": "selectors"}
		if tier != "" {
			made.Labels["tier"] = tier
		}
		if _, err := maps.Create(ctx, made, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	for selector, count := range map[string]int{
		"step=selectors": 3, "step=selectors,tier in (front,back)": 2,
		"step=selectors,tier!=front": 2, "step=selectors,!tier": 1,
	} {
		list, err := maps.List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return err
		}
		if err = expect(selector, len(list.Items), count); err != nil {
			return err
		}
	}
	list, err := maps.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=selected-1"})
	if err != nil {
		return err
	}
	if err = expect("by name", len(list.Items), 1); err != nil {
		return err
	}
	_, err = maps.List(ctx, metav1.ListOptions{FieldSelector: "data.a=1"})
	if !apierrors.IsBadRequest(err) {
		return fmt.Errorf("a field that cannot be selected: %v", err)
	}
	return maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "step=selectors"})
}
