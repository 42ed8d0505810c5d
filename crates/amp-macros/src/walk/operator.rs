//! `+ - * /` and their compound forms.

use super::Walker;
use super::called::is_asked;
use super::cast::{Goal, as_written, is_direct};
use super::made::meets;
use super::tail::may_differ;
use crate::emit::{self, Joint, Operand, Role, Treatment};
use crate::lattice::{Prec, Value};
use crate::literal::{self, Doubt};
use crate::named;
use crate::pin::Pin;
use crate::plan::Row;
use crate::rules::Rule;
use crate::shape::Shape;
use proc_macro2::{Ident, Span};
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{BinOp, Expr, ExprBinary, ExprUnary};

impl Walker<'_> {
    pub(super) fn binary(&mut self, expr: &mut Expr) -> Value {
        let source = expr.clone();
        let Expr::Binary(binary) = expr else { return Value::opaque() };
        let place = (*binary.left).clone();
        let mut left = self.expr(&mut binary.left);
        let before = self.flows.state();
        let mut right = self.expr(&mut binary.right);
        if matches!(binary.op, BinOp::And(_) | BinOp::Or(_)) {
            self.flows.merge(vec![before]);
        }
        let op = match binary.op {
            BinOp::Add(_) => "+",
            BinOp::Sub(_) => "-",
            BinOp::Mul(_) => "*",
            BinOp::Div(_) => "/",
            BinOp::AddAssign(_) | BinOp::SubAssign(_) | BinOp::MulAssign(_) | BinOp::DivAssign(_) => {
                self.compound(binary, &place, left, right);
                return Value::other();
            }
            BinOp::RemAssign(_)
            | BinOp::BitXorAssign(_)
            | BinOp::BitAndAssign(_)
            | BinOp::BitOrAssign(_)
            | BinOp::ShlAssign(_)
            | BinOp::ShrAssign(_) => {
                self.changed(&place);
                return Value::other();
            }
            _ => return Value::other(),
        };
        if left.made && meets(&right) {
            self.settle(&mut binary.left, &mut left, false);
        } else if right.made && meets(&left) {
            self.settle(&mut binary.right, &mut right, false);
        }
        let rule = self.operator_rule(op, &left);
        if rule != Rule::Widest && [&left, &right].iter().any(|value| value.prec.is_tensor()) {
            return self.ruled(rule, (expr, &source), op, [&left, &right]);
        }
        self.judge_operands(binary, &left, &right, op);
        self.check_apart(&left, &[&right], &place, op);
        // What has the type that is asked for cannot be asked for it.
        if is_asked(&binary.left, &left) || is_asked(&binary.right, &right) {
            return Value::opaque();
        }
        match left.prec.is_tensor() || right.prec.is_tensor() {
            true => self.met(expr, &source, op, left, right),
            false => self.met_unseen(expr, &source, &left, &right),
        }
    }

    /// Judges a number beside a tensor. What is divided is not rounded by itself.
    fn judge_operands(&mut self, binary: &mut ExprBinary, left: &Value, right: &Value, op: &str) {
        self.check_constant(&mut binary.right, right, &left.prec, op);
        if op != "/" {
            self.check_constant(&mut binary.left, left, &right.prec, op);
        }
        self.ask_whether_held(&mut binary.left, left, &binary.right, right, op);
        if op != "/" {
            self.ask_whether_held(&mut binary.right, right, &binary.left, left, op);
        }
    }

    /// `-h`: `neg` of a tensor. What is no tensor is negated as it is written.
    pub(super) fn negated(&mut self, expr: &mut Expr) -> Value {
        let source = expr.clone();
        let Expr::Unary(unary) = expr else { return Value::opaque() };
        let value = self.expr(&mut unary.expr);
        let rule = self.rules.find("neg").map(|found| found.rule);
        // Of what is not known it is the operator's result, whatever that was: no place any more.
        if value.prec == Prec::Opaque && !value.late {
            return Value { pinned: value.pinned, constants: value.constants, ..Value::opaque() };
        }
        let Some(rule) = rule.filter(|rule| rule.casts() && value.prec.is_tensor()) else { return value };
        let (prec, operand) = (self.of_rule(rule), &*unary.expr);
        self.rows.push(Row::new("-", rule.name(), &source, &[&value], &prec).with_target(&[&value], &prec));
        if let Some(error) = self.undone(operand, &value, &Goal::To(prec.clone()), "-") {
            self.errors.push(error);
        }
        let (treatment, tally) = self.in_place(operand, &value, &prec);
        if !matches!(treatment, Treatment::Nothing) {
            let (at, end, late) = (unary.op.span(), emit::ends(&source).1, value.is_unsettled());
            let inner = self.taken(&mut unary.expr, &treatment);
            let operands = vec![Operand { expr: inner, role: Role::Operator, treatment, late, tally }];
            let whole = unary.clone();
            self.rewrite(expr, |_| {
                emit::call((at, at, end), operands, Joint::None, None, |mut passed| {
                    let expr = Box::new(passed.pop().expect("one operand"));
                    Expr::Verbatim(ExprUnary { expr, ..whole }.into_token_stream())
                })
            });
        }
        Value::new(prec).shaped(Shape::Fallible)
    }

    /// The precision that a rule casts to.
    pub(super) fn of_rule(&self, rule: Rule) -> Prec {
        if rule == Rule::Full { Prec::F32 } else { self.lower() }
    }

    /// A tensor and a tensor or a number: tensors meet at the widest.
    fn met(&mut self, expr: &mut Expr, source: &Expr, op: &str, left: Value, right: Value) -> Value {
        let scalar = [&left, &right].iter().any(|value| matches!(value.prec, Prec::Other | Prec::Never));
        let prec = left.prec.widest(&right.prec);
        if !scalar {
            let row = Row::new(op, "widest", source, &[&left, &right], &prec).with_meeting(&[&left, &right]);
            self.rows.push(row);
        }
        let agree = left.sure && right.sure && left.prec == right.prec;
        if !scalar && !agree {
            self.meet_operands(expr, emit::ends(source), &left, &right);
        }
        let pinned = if scalar { left.pinned.or(right.pinned) } else { Pin::No };
        let late = left.is_late_f32() || right.is_late_f32();
        let sure = scalar || late || left.sure && right.sure;
        let made = scalar && (left.made || right.made);
        Value { pinned, late, made, sure: sure && prec.is_known(), ..Value::new(prec) }.shaped(Shape::Fallible)
    }

    /// Operands of which none is known to be a tensor.
    fn met_unseen(&mut self, expr: &mut Expr, source: &Expr, left: &Value, right: &Value) -> Value {
        let Expr::Binary(binary) = &*expr else { return Value::opaque() };
        let other = left.prec == Prec::Other || right.prec == Prec::Other;
        // Fields of the user's types may be tensors; references pass unchanged where they are not, and so does what operations
        // are called on.
        let lent = is_reference(&binary.left) && is_reference(&binary.right);
        if !other && (lent || left.by_name && right.by_name) {
            self.meet_operands(expr, emit::ends(source), left, right);
        }
        match (&left.prec, &right.prec) {
            (Prec::Other, Prec::Other) => Value::other(),
            // Scaled, it is still what the user cast.
            (Prec::Other, _) | (_, Prec::Other) => Value { pinned: left.pinned.max(right.pinned), ..Value::opaque() },
            _ => Value::opaque(),
        }
    }

    /// The rule of the operation that an operator is; a number over a tensor is one of its own. Calls that stay as they are
    /// written are those of somebody's function of that name.
    fn operator_rule(&self, op: &str, left: &Value) -> Rule {
        let name = match op {
            "+" => "add",
            "-" => "sub",
            "*" => "mul",
            _ if left.prec == Prec::Other => "__rtruediv__",
            _ => "div",
        };
        self.rules.find(name).map(|found| found.rule).filter(|rule| *rule != Rule::Skip).unwrap_or(Rule::Widest)
    }

    /// An operator whose rule is not to meet at the widest operand.
    fn ruled(&mut self, rule: Rule, (expr, source): (&mut Expr, &Expr), op: &str, operands: [&Value; 2]) -> Value {
        if !rule.casts() {
            return Value::opaque();
        }
        let prec = self.of_rule(rule);
        let tensors: Vec<&Value> = operands.into_iter().filter(|value| value.prec != Prec::Other).collect();
        self.rows.push(Row::new(op, rule.name(), source, &tensors, &prec).with_target(&tensors, &prec));
        if let Expr::Binary(binary) = &mut *expr {
            self.check_constant(&mut binary.right, operands[1], &prec, op);
            if op != "/" {
                self.check_constant(&mut binary.left, operands[0], &prec, op);
            }
        }
        let goal = Goal::To(prec.clone());
        let blamed = |i: usize| self.undone(as_written(source, i), operands[i], &goal, op);
        // One way out serves both.
        if let Some(error) = blamed(0).or_else(|| blamed(1)) {
            self.errors.push(error);
        }
        let [left, right] = [0, 1].map(|i| self.in_place(as_written(source, i), operands[i], &prec));
        let (treatments, tallies) = ([left.0, right.0], [left.1, right.1]);
        self.cast_operands(expr, emit::ends(source), operands, (treatments, tallies, Joint::None));
        let sure = tensors.iter().any(|value| value.sure && value.prec.is_tensor());
        Value { sure, ..Value::new(prec) }.shaped(Shape::Fallible)
    }

    /// Casts both operands to where they meet.
    fn meet_operands(&mut self, expr: &mut Expr, whole: (Span, Span), left: &Value, right: &Value) {
        let widen = left.sure && right.sure && left.prec.join(&right.prec) == Prec::F32;
        // F32 is where everything meets it.
        let late = left.late || right.late;
        let widen =
            widen || [left, right].iter().any(|value| value.is_surely(&Prec::F32) && (late || value.shape.lends()));
        let target = self.target(&Prec::F32);
        // What is cast without being asked is borrowed, which a variable beside an operator is not, unless it is a reference.
        let stays = |value: &Value, place: &Expr| value.shape == Shape::Pointer || !emit::is_place(place);
        let treatment = |value: &Value, place: &Expr| match widen {
            true if value.is_surely(&Prec::F32) => Treatment::Nothing,
            true if value.late && !self.cx.host => Treatment::Late(target.clone()),
            true if is_direct(value) && stays(value, place) => Treatment::Direct(target.clone()),
            true => Treatment::To(target.clone()),
            false => Treatment::Meet,
        };
        let Expr::Binary(binary) = &*expr else { return };
        let treatments = [treatment(left, &binary.left), treatment(right, &binary.right)];
        let may_be_number = matches!(binary.op, BinOp::Div(_)) && !left.prec.is_tensor();
        let joint = if may_be_number { Joint::Quotient } else { Joint::None };
        self.cast_operands(expr, whole, [left, right], (treatments, [None, None], joint));
    }

    fn cast_operands(
        &mut self,
        expr: &mut Expr,
        (first, last): (Span, Span),
        values: [&Value; 2],
        (treatments, tallies, joint): ([Treatment; 2], [Option<Ident>; 2], Joint),
    ) {
        let Expr::Binary(binary) = expr else { return };
        let at = binary.op.span();
        let operands =
            [&mut *binary.left, &mut *binary.right].into_iter().zip(treatments).zip(values.into_iter().zip(tallies));
        let operand =
            |((expr, treatment), (value, tally)): ((&mut Expr, Treatment), (&Value, Option<Ident>))| Operand {
                expr: self.taken(expr, &treatment),
                role: Role::Operator,
                treatment,
                late: value.is_unsettled(),
                tally,
            };
        let operands = operands.map(operand).collect();
        let whole = binary.clone();
        self.rewrite(expr, |_| {
            emit::call((first, at, last), operands, joint, None, |mut passed| {
                let right = Box::new(passed.pop().expect("two operands"));
                let left = Box::new(passed.pop().expect("two operands"));
                Expr::Verbatim(ExprBinary { left, right, ..whole }.into_token_stream())
            })
        });
    }

    /// `h += x`: `h` keeps its precision, so `x` may only be widened. What is no tensor may be a type of one's own that takes
    /// such.
    fn compound(&mut self, binary: &mut ExprBinary, place: &Expr, left: Value, mut right: Value) {
        self.check_constant(&mut binary.right, &right, &left.prec, "+");
        self.changed(place);
        if left.prec == Prec::Opaque && may_differ(&right) {
            return self.expected(&mut binary.right, &mut right);
        }
        let Some(var) = self.variable(place) else { return };
        if right.prec == Prec::Other || !(left.prec.is_tensor() || right.prec.is_tensor()) {
            return;
        }
        self.assign_var(var, &left.join(&right));
        if self.chosen(var) == Some(Prec::F32) && !right.is_surely(&Prec::F32) && !is_reference(&binary.right) {
            self.rewrite(&mut binary.right, |inner| self.widened(inner, &right));
        }
    }

    /// Judges a constant beside a tensor whose precision only its type tells.
    fn ask_whether_held(&self, tensor: &mut Expr, value: &Value, constant: &Expr, number: &Value, op: &str) {
        if value.precision_is_open()
            && let Some(doubt) = self.doubtful(value, (constant, number), op)
        {
            self.rewrite(tensor, |inner| emit::holding(inner, &doubt));
        }
    }

    /// What judges a constant that not every half format holds, beside a value of a precision that only its type tells; that
    /// value may not be known to be a tensor.
    pub(super) fn doubtful(&self, beside: &Value, (constant, number): (&Expr, &Value), op: &str) -> Option<Doubt> {
        // A size may stand beside a size that is a parameter of what surrounds the function: `self.width / HEADS`.
        let sizes = self.cx.within && beside.prec == Prec::Opaque;
        let number = (number, beside.prec.is_tensor());
        named::doubtful(constant, number, (op, literal::half(&self.lower())), sizes, &self.scopes)
    }

    /// Judges a numeric operand of something that runs in `prec`.
    pub(super) fn check_constant(&mut self, operand: &mut Expr, value: &Value, prec: &Prec, op: &str) {
        let Some(half) = literal::half(prec) else { return };
        if let Err(error) = literal::judge(operand, value, half, op) {
            self.errors.push(error);
        }
        if let Some(items) = named::check(operand, half, op, &self.scopes) {
            self.rewrite(operand, |inner| literal::with_items(items, inner));
        }
    }
}

fn is_reference(expr: &Expr) -> bool {
    matches!(expr, Expr::Reference(_))
}
