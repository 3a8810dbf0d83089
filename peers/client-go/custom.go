package main

import (
	"context"
	"fmt"
	"strings"

	extensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var widgets = schema.GroupVersionResource{Group: "peers.example", Version: "v1", Resource: "widgets"}

func definition() *extensionsv1.CustomResourceDefinition {
	text := extensionsv1.JSONSchemaProps{Type: "string"}
	count := extensionsv1.JSONSchemaProps{Type: "integer", Default: &extensionsv1.JSON{Raw: []byte("3")}}
	return &extensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.peers.example"},
		Spec: extensionsv1.CustomResourceDefinitionSpec{
			Group: "peers.example",
			Scope: extensionsv1.NamespaceScoped,
			Names: extensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []extensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Subresources: &extensionsv1.CustomResourceSubresources{Status: &extensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &extensionsv1.CustomResourceValidation{OpenAPIV3Schema: &extensionsv1.JSONSchemaProps{
					Type: "object",
					Properties: map[string]extensionsv1.JSONSchemaProps{
						"spec": {
							Type:       "object",
							Properties: map[string]extensionsv1.JSONSchemaProps{"color": text, "count": count},
							XValidations: extensionsv1.ValidationRules{
								{Rule: "self.count < 10", Message: "too many"},
								{Rule: "self.color == oldSelf.color", Message: "the color stays"},
							},
						},
						"status": {Type: "object", Properties: map[string]extensionsv1.JSONSchemaProps{"seen": {Type: "integer"}}},
					},
				}},
			}},
		},
	}
}

func widget(name, color string, spec map[string]any) *unstructured.Unstructured {
	object := map[string]any{"apiVersion": "peers.example/v1", "kind": "Widget",
		"metadata": map[string]any{"name": name},
		"spec":     map[string]any{"color": color, "unknown": "is pruned"}}
	for key, value := range spec {
		object["spec"].(map[string]any)[key] = value
	}
	return &unstructured.Unstructured{Object: runtime.DeepCopyJSON(object)}
}

// Defines a type, waits until it is there, and uses it: defaults, pruning, status, watch, deletion.
func (c *clients) customResources(ctx context.Context) error {
	definitions := c.extensions.ApiextensionsV1().CustomResourceDefinitions()
	if _, err := definitions.Create(ctx, definition(), metav1.CreateOptions{}); err != nil {
		return err
	}
	err := eventually(ctx, "the type to be established", func() (bool, error) {
		read, err := definitions.Get(ctx, "widgets.peers.example", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, condition := range read.Status.Conditions {
			if condition.Type == extensionsv1.Established && condition.Status == extensionsv1.ConditionTrue {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	objects := c.dynamic.Resource(widgets).Namespace(namespace)
	var made *unstructured.Unstructured
	// Established means that it will be served everywhere soon, not now.
	err = eventually(ctx, "the type to be served", func() (bool, error) {
		made, err = objects.Create(ctx, widget("one", "red", nil), metav1.CreateOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return err
	}
	if err = expect("spec", fmt.Sprint(made.Object["spec"]), "map[color:red count:3]"); err != nil {
		return err
	}
	if err = unstructured.SetNestedField(made.Object, int64(1), "status", "seen"); err != nil {
		return err
	}
	updated, err := objects.UpdateStatus(ctx, made, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	if err = expect("status", fmt.Sprint(updated.Object["status"]), "map[seen:1]"); err != nil {
		return err
	}
	events, err := objects.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	defer events.Stop()
	if event := <-events.ResultChan(); event.Type != "ADDED" {
		return fmt.Errorf("a watch began with %v", event)
	}
	return objects.Delete(ctx, "one", metav1.DeleteOptions{})
}

func (c *clients) celRules(ctx context.Context) error {
	objects := c.dynamic.Resource(widgets).Namespace(namespace)
	_, err := objects.Create(ctx, widget("many", "red", map[string]any{"count": int64(10)}), metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "too many") {
		return fmt.Errorf("against a rule: %v", err)
	}
	made, err := objects.Create(ctx, widget("few", "red", map[string]any{"count": int64(9)}), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err = unstructured.SetNestedField(made.Object, "blue", "spec", "color"); err != nil {
		return err
	}
	_, err = objects.Update(ctx, made, metav1.UpdateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "the color stays") {
		return fmt.Errorf("against a rule about changes: %v", err)
	}
	return nil
}
