//! Where a narrowing is made: once, at the lowest point that all its uses share, and outside of loops.
//!
//! Uses in exclusive branches are not merged (a path that uses the value nowhere would pay for them), and nothing is
//! lifted out of a `move` closure or an async block or shared with it: it would then own the copy. Nor is anything lifted
//! out of a closure that somebody may keep for longer than the copy lives.

use std::collections::HashMap;
use syn::Expr;

/// One step from the function's body down to an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Statement `1` of block `0`.
    Block(u32, usize),
    /// Arm `1` of the branching expression `0`.
    Branch(u32, u32),
    /// The body or condition of a loop.
    Loop(u32),
    /// A closure that borrows, and is used up where it stands or held by a variable.
    Closure(u32),
    /// A `move` closure, one that may be kept, or an async block.
    Barrier(u32),
}

/// What is narrowed: a variable's number, fields of it, and the target precision.
pub(crate) type Key = (usize, String, String);

/// A place that is narrowed by a call.
#[derive(Clone)]
pub(crate) struct Use {
    pub(crate) key: Key,
    /// The place, or a reference to it.
    pub(crate) place: Expr,
    /// It certainly is a tensor.
    pub(crate) direct: bool,
    pub(crate) steps: Vec<Step>,
    /// Length of the path at which the variable is in scope.
    pub(crate) scope: usize,
    /// Length of the path to what owns the copy or the place, not less than that.
    pub(crate) owned: usize,
}

impl Use {
    /// The innermost of the closures and blocks around it that would own a copy made outside of them, or that own the
    /// place.
    fn owner(&self) -> Option<&Step> {
        self.steps.get(self.scope..self.owned)?.last()
    }
}

/// A narrowing made ahead of its uses.
#[derive(Clone)]
pub(crate) struct Hoist {
    pub(crate) place: Expr,
    pub(crate) target: String,
    pub(crate) direct: bool,
    block: u32,
    statement: usize,
}

/// All narrowings of a function that are made ahead.
#[derive(Clone, Default)]
pub(crate) struct Hoists {
    list: Vec<Hoist>,
    of_use: HashMap<usize, usize>,
}

impl Hoists {
    /// Plans the hoists for all uses, in the order in which they were recorded.
    pub(crate) fn plan(uses: &[Use]) -> Self {
        let mut hoists = Self::default();
        let mut by_key: Vec<(&Use, Vec<usize>)> = Vec::new();
        for (i, one) in uses.iter().enumerate() {
            match by_key.iter_mut().find(|(known, _)| known.key == one.key && known.owner() == one.owner()) {
                Some((_, list)) => list.push(i),
                None => by_key.push((one, vec![i])),
            }
        }
        let mut placed: HashMap<(&Key, u32, usize), usize> = HashMap::new();
        for (Use { key, .. }, list) in by_key {
            let mut found = Vec::new();
            group(uses, &list, &mut found);
            for (block, statement, members) in found {
                let index = *placed.entry((key, block, statement)).or_insert_with(|| {
                    let Use { place, direct, .. } = uses[members[0]].clone();
                    hoists.list.push(Hoist { place, direct, target: key.2.clone(), block, statement });
                    hoists.list.len() - 1
                });
                hoists.of_use.extend(members.into_iter().map(|i| (i, index)));
            }
        }
        hoists
    }

    /// The hoist that serves the use with this number.
    pub(crate) fn of(&self, number: usize) -> Option<usize> {
        self.of_use.get(&number).copied()
    }

    /// The hoists to insert into a block: statement, number, what.
    pub(crate) fn of_block(&self, block: u32) -> Vec<(usize, usize, &Hoist)> {
        let mut list: Vec<_> = (self.list.iter().enumerate())
            .filter(|(_, hoist)| hoist.block == block)
            .map(|(number, hoist)| (hoist.statement, number, hoist))
            .collect();
        list.sort_by_key(|(statement, number, _)| (*statement, *number));
        list
    }
}

/// Finds an insertion point for `members`, or splits them by exclusive branches.
fn group(uses: &[Use], members: &[usize], found: &mut Vec<(u32, usize, Vec<usize>)>) {
    let paths: Vec<&[Step]> = members.iter().map(|&i| uses[i].steps.as_slice()).collect();
    let common = common_prefix(&paths);
    if let Some(arms) = exclusive(&paths, common) {
        for arm in arms {
            let some: Vec<usize> = arm.into_iter().map(|k| members[k]).collect();
            group(uses, &some, found);
        }
        return;
    }
    let scope = uses[members[0]].scope;
    // Several statements of one block: the first of them.
    let (mut depth, mut point) = match paths.iter().map(|path| path.get(common)).collect::<Option<Vec<_>>>() {
        Some(next) if next.iter().all(|step| matches!(step, Step::Block(..))) => {
            let first = next.iter().filter_map(|step| match step {
                Step::Block(block, statement) => Some((*statement, *block)),
                _ => None,
            });
            (common, first.min().map(|(statement, block)| (block, statement)))
        }
        _ => (common, None),
    };
    let path = paths[0];
    if point.is_none() {
        (depth, point) = innermost_block(path, scope, common);
    }
    let barrier = uses[members[0]].owned;
    let lifts = path[..depth].iter().enumerate().skip(barrier);
    let repeated = lifts.clone().find(|(_, step)| matches!(step, Step::Loop(_) | Step::Closure(_))).map(|(at, _)| at);
    let lifted = repeated.and_then(|at| innermost_block(path, barrier, at).1);
    match (lifted, point) {
        (Some((block, statement)), _) => found.push((block, statement, members.to_vec())),
        (None, Some((block, statement))) if members.len() > 1 => found.push((block, statement, members.to_vec())),
        _ => {}
    }
}

/// The last block step of `path[..end]` in which the variable is in scope.
fn innermost_block(path: &[Step], scope: usize, end: usize) -> (usize, Option<(u32, usize)>) {
    let found = path[..end].iter().enumerate().skip(scope).rev().find_map(|(at, step)| match step {
        Step::Block(block, statement) => Some((at, (*block, *statement))),
        _ => None,
    });
    match found {
        Some((at, point)) => (at, Some(point)),
        None => (end, None),
    }
}

fn common_prefix(paths: &[&[Step]]) -> usize {
    let shortest = paths.iter().map(|path| path.len()).min().unwrap_or(0);
    (0..shortest).find(|&at| paths.iter().any(|path| path[at] != paths[0][at])).unwrap_or(shortest)
}

/// Members by arm, when the paths part at one branching expression.
fn exclusive(paths: &[&[Step]], at: usize) -> Option<Vec<Vec<usize>>> {
    let mut arms: Vec<(u32, Vec<usize>)> = Vec::new();
    let mut node = None;
    for (k, path) in paths.iter().enumerate() {
        let Some(Step::Branch(this, arm)) = path.get(at) else { return None };
        if *node.get_or_insert(*this) != *this {
            return None;
        }
        match arms.iter_mut().find(|(known, _)| known == arm) {
            Some((_, list)) => list.push(k),
            None => arms.push((*arm, vec![k])),
        }
    }
    (arms.len() > 1).then(|| arms.into_iter().map(|(_, list)| list).collect())
}
