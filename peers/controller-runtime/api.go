package main

import (
	extensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "peers.example", Version: "v1"}

// Greeting asks for a ConfigMap with a text.
type Greeting struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              GreetingSpec   `json:"spec"`
	Status            GreetingStatus `json:"status,omitempty"`
}

// GreetingSpec is what is wanted.
type GreetingSpec struct {
	Text  string `json:"text"`
	Times int    `json:"times,omitempty"`
}

// GreetingStatus is what was done.
type GreetingStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// GreetingList is many of them.
type GreetingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Greeting `json:"items"`
}

// DeepCopyObject makes a Greeting an object of the runtime.
func (g *Greeting) DeepCopyObject() runtime.Object {
	copied := *g
	g.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	copied.Status.Conditions = make([]metav1.Condition, len(g.Status.Conditions))
	for i := range g.Status.Conditions {
		g.Status.Conditions[i].DeepCopyInto(&copied.Status.Conditions[i])
	}
	return &copied
}

// DeepCopyObject makes a GreetingList an object of the runtime.
func (l *GreetingList) DeepCopyObject() runtime.Object {
	copied := *l
	l.ListMeta.DeepCopyInto(&copied.ListMeta)
	copied.Items = make([]Greeting, len(l.Items))
	for i := range l.Items {
		copied.Items[i] = *l.Items[i].DeepCopyObject().(*Greeting)
	}
	return &copied
}

func addToScheme(scheme *runtime.Scheme) {
	scheme.AddKnownTypes(groupVersion, &Greeting{}, &GreetingList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
}

func definition() *extensionsv1.CustomResourceDefinition {
	type properties = map[string]extensionsv1.JSONSchemaProps
	one := float64(1)
	text := extensionsv1.JSONSchemaProps{Type: "string"}
	condition := extensionsv1.JSONSchemaProps{Type: "object", Required: []string{"type", "status"}, Properties: properties{
		"type": text, "status": text, "reason": text, "message": text,
		"lastTransitionTime": {Type: "string", Format: "date-time"}, "observedGeneration": {Type: "integer", Format: "int64"}}}
	mapped := "map"
	schema := extensionsv1.JSONSchemaProps{Type: "object", Required: []string{"spec"}, Properties: properties{
		"spec": {
			Type: "object", Required: []string{"text"},
			Properties: properties{
				"text":  {Type: "string", XValidations: extensionsv1.ValidationRules{{Rule: "!self.contains('bye')", Message: "that is no greeting"}}},
				"times": {Type: "integer", Minimum: &one, Default: &extensionsv1.JSON{Raw: []byte("1")}},
			},
		},
		"status": {Type: "object", Properties: properties{
			"observedGeneration": {Type: "integer", Format: "int64"},
			"conditions": {Type: "array", XListType: &mapped, XListMapKeys: []string{"type"},
				Items: &extensionsv1.JSONSchemaPropsOrArray{Schema: &condition}},
		}},
	}}
	return &extensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "greetings.peers.example"},
		Spec: extensionsv1.CustomResourceDefinitionSpec{
			Group: groupVersion.Group,
			Scope: extensionsv1.NamespaceScoped,
			Names: extensionsv1.CustomResourceDefinitionNames{Plural: "greetings", Singular: "greeting", Kind: "Greeting", ListKind: "GreetingList"},
			Versions: []extensionsv1.CustomResourceDefinitionVersion{{
				Name: groupVersion.Version, Served: true, Storage: true,
				Subresources: &extensionsv1.CustomResourceSubresources{Status: &extensionsv1.CustomResourceSubresourceStatus{}},
				Schema:       &extensionsv1.CustomResourceValidation{OpenAPIV3Schema: &schema},
			}},
		},
	}
}
