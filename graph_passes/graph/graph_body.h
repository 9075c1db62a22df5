// An editable form of the nodes of a graph, or of a function in its library, with the readers of
// each tensor. It is for passes over several bodies at once.
//
// A tensor has its name in the body: in a graph "node" or "node:1", in a function "node:output:1"
// or the name of an argument. Control inputs are not tensors.
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_GRAPH_BODY_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_GRAPH_BODY_H_

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tensorflow/core/framework/function.pb.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace npu_precision {

class GraphBody {
 public:
  struct Reader {
    tensorflow::NodeDef* node;
    int input;
  };

  // Both must outlive this object. Nothing else may edit them.
  explicit GraphBody(tensorflow::GraphDef* graph);
  explicit GraphBody(tensorflow::FunctionDef* function);
  GraphBody(const GraphBody&) = delete;
  GraphBody& operator=(const GraphBody&) = delete;

  // nullptr for the graph itself.
  tensorflow::FunctionDef* function() const { return function_; }
  // The function's name, "" for the graph.
  std::string name() const { return function_ == nullptr ? "" : function_->signature().name(); }

  // The nodes in their order, without dropped ones; added ones are last.
  std::vector<tensorflow::NodeDef*> Nodes() const;
  // The node that yields a tensor; nullptr for an argument of the function.
  tensorflow::NodeDef* Producer(const std::string& tensor) const;
  // The name of output `port` of a node whose op has one output argument of this name.
  std::string OutputOf(const tensorflow::NodeDef& node, const char* argument, int port) const;
  // An input of a node, in the form that Readers() accepts.
  std::string Input(const tensorflow::NodeDef& node, int k) const;

  std::vector<Reader> Readers(const std::string& tensor) const;
  // Whether the function returns the tensor, as any of its results.
  bool IsReturned(const std::string& tensor) const { return returned_.count(tensor) != 0; }
  bool IsReturnedOnce(const std::string& tensor) const {
    const auto found = returned_.find(tensor);
    return found != returned_.end() && found->second == 1;
  }
  // Whether a node, or the return of the function, has a control dependency on the node.
  bool IsControlProducer(const std::string& node) const { return control_.count(node) != 0; }

  // Appends an input to a node that Add() made.
  void AddInput(tensorflow::NodeDef* node, const std::string& tensor);
  void SetInput(tensorflow::NodeDef* node, int k, const std::string& tensor);
  // Makes the readers of `from` read `to` instead, also if the function returns it.
  void MoveReaders(const std::string& from, const std::string& to);
  // The tensor that the function returns as this result; and a way to return another one.
  std::string Result(const std::string& result) const;
  void SetResult(const std::string& result, const std::string& tensor);

  // Adds a node with a unique name.
  tensorflow::NodeDef* Add(const std::string& wanted_name);
  // Drops a node, which must have no readers left. It is deleted when the edits end.
  void Drop(tensorflow::NodeDef* node);
  // Deletes the dropped nodes and, if anything was edited, sorts the nodes as Grappler does, so
  // that it keeps their order when it reads the result. No other call may follow.
  void End();

 private:
  using Nodes_ = google::protobuf::RepeatedPtrField<tensorflow::NodeDef>;
  void Index();
  std::vector<tensorflow::NodeDef*> Sorted() const;

  Nodes_* const nodes_;
  tensorflow::FunctionDef* const function_;
  std::unordered_map<std::string, tensorflow::NodeDef*> by_name_;
  std::unordered_map<std::string, std::vector<Reader>> readers_;
  // By tensor: the number of results that return it.
  std::unordered_map<std::string, int> returned_;
  std::unordered_set<std::string> control_;
  std::unordered_set<const tensorflow::NodeDef*> dropped_;
  bool is_edited_ = false;
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_GRAPH_BODY_H_
