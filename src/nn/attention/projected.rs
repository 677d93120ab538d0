//! The projections of multi-head attention as position schemes use them, to project vectors of distances.

use super::multi_head::MultiHead;
use crate::nn::position::HeadProjections;
use burn::tensor::Tensor;

impl HeadProjections for MultiHead {
    fn queries(&self, x: Tensor<2>) -> Tensor<3> {
        let x = self.query.forward(x.unsqueeze_dim(0));
        let x = self.split(x, self.n_heads, Some(&self.query_norm));
        x.squeeze_dim(0)
    }

    fn keys(&self, x: Tensor<2>) -> Tensor<3> {
        let x = self.key.forward(x.unsqueeze_dim(0));
        let x = self.split(x, self.n_kv_heads, Some(&self.key_norm));
        let [_, kv_heads, rows, d_head] = x.dims();
        let group = self.n_heads / kv_heads;
        let x = x.reshape([kv_heads, 1, rows, d_head]);
        x.expand([kv_heads, group, rows, d_head])
            .reshape([self.n_heads, rows, d_head])
    }
}
