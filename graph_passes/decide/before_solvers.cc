#include "graph_passes/decide/before_solvers.h"

#include <string>
#include <unordered_set>

#include "graph_passes/analysis/error_paths.h"
#include "graph_passes/analysis/linear_paths.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"

namespace npu_precision {
namespace {

bool Solves(const std::string& op) {
  static const auto* names = new std::unordered_set<std::string>{"MatrixSolve",
                                                                 "MatrixTriangularSolve",
                                                                 "MatrixSolveLs",
                                                                 "TridiagonalSolve",
                                                                 "MatrixInverse",
                                                                 "Cholesky",
                                                                 "SelfAdjointEig",
                                                                 "SelfAdjointEigV2",
                                                                 "Eig",
                                                                 "Svd",
                                                                 "Qr",
                                                                 "Lu",
                                                                 "MatrixLogarithm",
                                                                 "MatrixDeterminant",
                                                                 "LogMatrixDeterminant",
                                                                 "MatrixSquareRoot",
                                                                 "BandedTriangularSolve"};
  return names->count(op) != 0;
}

// The op yields the x of Ax = b. An ill-conditioned A makes it large, so products with it cancel.
bool YieldsSolution(const std::string& op) {
  return op == "MatrixSolve" || op == "MatrixSolveLs" || op == "MatrixTriangularSolve" ||
         op == "TridiagonalSolve";
}

class Walk {
 public:
  Walk(const GraphView& view, const ConstantValues& values, const DecideContext& context,
       const std::vector<bool>& ends_path)
      : view_(view),
        ends_path_(ends_path),
        paths_(view, values, context.elements, ends_path),
        solvers_(view, Solves),
        products_(view, IsMatrixOrConvolution),
        averages_(view, AveragesErrors),
        weights_(view, YieldsWeight),
        solutions_(view, YieldsSolution),
        moves_values_(view, MovesValues),
        ends_(view, context.fed, ends_path),
        is_kept_(view.num_groups(), false) {}

  std::vector<KeptGroup> Run() {
    // The first cause of a node stays, so the order of causes must not depend on the order of the
    // nodes.
    for (int solver : InOrderOfNames(view_, solvers_.Ids())) {
      if (view_.op_def(solver) == nullptr || ends_path_[solver]) continue;
      std::vector<int> nodes = {solver};
      for (size_t i = 0; i < nodes.size(); ++i) {
        if (products_.Has(nodes[i])) {
          KeepFactors(nodes[i], solver, &nodes);
        } else {
          for (const OutputPort& from : view_.fanin(nodes[i])) Push(from, solver, &nodes);
        }
      }
    }
    for (int solver : InOrderOfNames(view_, solutions_.Ids())) KeepProductsOf(solver);
    return keeps_;
  }

 private:
  void KeepProductsOf(int solver) {
    std::vector<int> moved = {solver};
    for (size_t i = 0; i < moved.size(); ++i) {
      view_.VisitThroughInserted(view_.fanout(moved[i]), [&](const InputPort& use) {
        const bool moves = moves_values_.Has(use.node);
        if (!(moves || products_.Has(use.node)) || ends_path_[use.node]) return;
        if (Keep(view_.GroupOf(use), solver) && moves) moved.push_back(use.node);
      });
    }
  }

  void Push(const OutputPort& tensor, int solver, std::vector<int>* nodes) {
    const OutputPort from = view_.LookThroughInserted(tensor);
    if (!Ends(from) && Keep(view_.GroupOf(from), solver)) nodes->push_back(from.node);
  }

  // Keeps the products that `product` multiplies, and what moves or scales them.
  void KeepFactors(int product, int solver, std::vector<int>* nodes) {
    for (const OutputPort& factor : view_.fanin(product)) {
      if (weights_.Has(paths_.Base(factor).node)) return;
    }
    for (const OutputPort& factor : view_.fanin(product)) {
      std::vector<int> passed;
      const OutputPort from = paths_.Base(factor, &passed, nullptr);
      if (!products_.Has(from.node)) continue;
      for (int id : passed) Keep(view_.GroupOf(OutputPort{id, 0}), solver);
      Push(from, solver, nodes);
    }
  }

  bool Ends(const OutputPort& from) const {
    return ends_.Has(from) || averages_.Has(from.node) || solvers_.Has(from.node);
  }

  // Whether the group was not kept before.
  bool Keep(int group, int solver) {
    if (group == kNoGroup || is_kept_[group]) return false;
    is_kept_[group] = true;
    keeps_.push_back({group, Reason::kBeforeMagnifier, solver});
    return true;
  }

  const GraphView& view_;
  const std::vector<bool>& ends_path_;
  const LinearPaths paths_;
  const OpSet solvers_, products_, averages_, weights_, solutions_, moves_values_;
  const ErrorPathEnds ends_;
  std::vector<bool> is_kept_;  // by group number
  std::vector<KeptGroup> keeps_;
};

}  // namespace

std::vector<KeptGroup> BeforeSolvers(const GraphView& view, const ConstantValues& values,
                                     const DecideContext& context,
                                     const std::vector<bool>& ends_path) {
  return Walk(view, values, context, ends_path).Run();
}

}  // namespace npu_precision
