//! Blocks of the depth (KC of BLIS): after each, the sums of a tile are written, and read again for the next.

/// How a depth is cut into blocks.
#[derive(Clone, Copy)]
pub(crate) struct Cut {
    /// Elements of a block where it makes no difference.
    pub usual: usize,
    /// The most that a block has.
    pub longest: usize,
    /// What blocks are a multiple of, but for the last.
    pub step: usize,
}

impl Cut {
    /// Blocks of no more than so many elements.
    pub(crate) fn at_most(longest: usize, step: usize) -> Self {
        Self { usual: longest, longest, step }
    }

    /// Elements of each block of `depth`, the last one excepted. They are alike: a short one would read and write the sums for
    /// next to nothing.
    pub(crate) fn block(&self, depth: usize) -> usize {
        let count = (depth / self.usual).max(depth.div_ceil(self.longest)).max(1);
        depth.div_ceil(count).max(1).next_multiple_of(self.step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_alike_and_a_short_one_is_spared() {
        let cut = Cut { usual: 256, longest: 384, step: 32 };
        let blocks =
            [(0, 32), (1, 32), (256, 256), (384, 384), (385, 224), (512, 256), (576, 288), (768, 256), (1152, 288)];
        for (depth, block) in blocks {
            assert_eq!(cut.block(depth), block, "{depth}");
        }
        for depth in 1..3000 {
            let block = cut.block(depth);
            assert!(block <= cut.longest && block.is_multiple_of(cut.step), "{depth}: {block}");
            assert!(depth.div_ceil(block) <= depth.div_ceil(cut.usual), "{depth}: {block}");
        }
        assert_eq!(Cut::at_most(256, 1).block(300), 150);
        assert_eq!(Cut::at_most(256, 1).block(256), 256);
    }
}
