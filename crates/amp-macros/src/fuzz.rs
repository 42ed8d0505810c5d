//! Arbitrary token streams: the macros give code or an error that is placed in the input, and never panic or hang.

use crate::{amp_op, expand, policy, region};
use proc_macro2::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};
use std::time::{Duration, Instant};

/// Streams that each entry point is given.
const STREAMS: usize = 3000;
/// A stream of a hundred tokens takes far less than a second even in a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

const WORDS: &[&str] = &[
    "fn",
    "f",
    "x",
    "w",
    "h",
    "self",
    "let",
    "mut",
    "if",
    "else",
    "match",
    "for",
    "in",
    "while",
    "loop",
    "break",
    "return",
    "move",
    "async",
    "await",
    "Tensor",
    "F16",
    "F32",
    "P",
    "Result",
    "Ok",
    "Some",
    "None",
    "matmul",
    "softmax",
    "add",
    "relu",
    "to",
    "forward",
    "binary_cross_entropy",
    "backward",
    "masked_fill",
    "amp_region",
    "vec",
    "f16",
    "bf16",
    "f32",
    "half",
    "enabled",
    "policy",
    "max_casts",
    "full",
    "lower",
    "keep",
    "skip",
    "force_lower",
    "host",
    "exp",
    "cat",
    "step",
    "r#where",
    "impl",
    "const",
    "struct",
    "pub",
    "crate",
    "usize",
    "MASK",
    "eps",
];
const MARKS: &[char] = &['.', ',', ';', ':', '&', '*', '+', '-', '/', '=', '<', '>', '!', '?', '|', '#', '@', '_'];

/// Whole pieces of a body, so that most streams get past the parser.
const PIECES: &[&str] = &[
    "let h = x . matmul ( & w ) ? ;",
    "let mut h = x . clone ( ) ;",
    "h = h . softmax ( - 1 ) ? ;",
    "for w in & ws { h = h . matmul ( w ) ? ; }",
    "let ( mut a , b ) = ( x . exp ( ) ? , & w ) ;",
    "let k = if c { h . relu ( ) ? } else { x . matmul ( & w ) ? } ;",
    "let k = match n { 0 => self . fc . forward ( & h ) ? , 1 if c => x . exp ( ) ? , _ => return Ok ( h ) , } ;",
    "let g = | y : & Tensor < F32 > | y . matmul ( & w ) ;",
    "let y = move || x . add ( & h ) ;",
    "h += x . matmul ( & w ) ? ;",
    "let s = ( & h + & x ) ? * 1e-8 ;",
    "let r = amp_region ! ( f32 , { h . matmul ( & w ) ? } ) ;",
    "let v = vec ! [ h . exp ( ) ? ; 3 ] ;",
    "let q = 'a : { if c { break 'a x . exp ( ) ? ; } h . matmul ( & w ) ? } ;",
    "let t = loop { break x . matmul ( & w ) ? ; } ;",
    "while let Some ( y ) = queue . pop ( ) { h = y ; }",
    "let Some ( z ) = o else { return None } ;",
    "let c = Tensor :: cat ( & [ & h , & x ] , 1 ) ? ;",
    "self . state = h . tanh ( ) ? ;",
    "let z = h . to :: < F32 > ( ) ? . matmul ( & w ) ? ;",
    "x . r#where ( ) ; p . r#step ( 1 ) ;",
    "async { x . matmul ( & w ) } . await ? ;",
    "Ok ( ( h , Some ( x . sum_all ( ) ? ) ) )",
    "h . masked_fill ( & m , f32 :: MIN )",
];

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn token(&mut self, depth: usize) -> TokenTree {
        match self.below(12) {
            0..5 => {
                let word = WORDS[self.below(WORDS.len())];
                match word.strip_prefix("r#") {
                    Some(raw) => Ident::new_raw(raw, Span::call_site()).into(),
                    None => Ident::new(word, Span::call_site()).into(),
                }
            }
            5..9 => {
                let spacing = if self.below(2) == 0 { Spacing::Alone } else { Spacing::Joint };
                match MARKS[self.below(MARKS.len())] {
                    '_' => Ident::new("_", Span::call_site()).into(),
                    mark => Punct::new(mark, spacing).into(),
                }
            }
            9 => [Literal::f64_unsuffixed(1e-8), Literal::usize_unsuffixed(3), Literal::string("s")][self.below(3)]
                .clone()
                .into(),
            _ if depth == 0 => Ident::new("x", Span::call_site()).into(),
            _ => {
                let delimiters = [Delimiter::Parenthesis, Delimiter::Brace, Delimiter::Bracket, Delimiter::None];
                Group::new(delimiters[self.below(4)], self.stream(depth - 1, 8)).into()
            }
        }
    }

    fn stream(&mut self, depth: usize, most: usize) -> TokenStream {
        (0..self.below(most)).map(|_| self.token(depth)).collect()
    }

    /// A function whose body is made of whole pieces and, now and then, of noise.
    fn function(&mut self) -> TokenStream {
        let mut body = TokenStream::new();
        for _ in 0..self.below(9) {
            let piece = PIECES[self.below(PIECES.len())];
            body.extend(piece.parse::<TokenStream>().expect("a piece is tokens"));
            if self.below(12) == 0 {
                body.extend(self.stream(2, 4));
            }
        }
        let returns = [
            "",
            "-> Result < Tensor < F32 > >",
            "-> Result < ( Tensor < F16 > , Option < Tensor < F32 > > ) >",
            "-> Tensor < P >",
        ];
        let head = format!(
            "fn f ( & self , x : & Tensor < F32 > , w : Tensor < F16 > , ws : & [ Tensor ] ) {}",
            returns[self.below(4)]
        );
        let mut function: TokenStream = head.parse().expect("a head is tokens");
        function.extend([TokenTree::from(Group::new(Delimiter::Brace, body))]);
        function
    }

    fn rules(&mut self) -> TokenStream {
        let known = ["", "full : [ tanh , exp ] ,", "lower : [ mix ] , keep : [ own ]", "full : tanh"];
        match self.below(4) {
            0 => self.stream(2, 10),
            _ => known[self.below(known.len())].parse().expect("rules are tokens"),
        }
    }

    fn arguments(&mut self) -> TokenStream {
        let known = [
            "f16",
            "bf16",
            "P",
            "f32",
            "f16 , enabled = c",
            "f16 , full ( tanh ) , force_lower ( exp )",
            "bf16 , max_casts = 2",
            "f16 , host = h",
        ];
        match self.below(4) {
            0 => self.stream(2, 10),
            _ => known[self.below(known.len())].parse().expect("arguments are tokens"),
        }
    }
}

#[track_caller]
fn code_or_error(input: &TokenStream, output: &TokenStream) {
    assert!(!output.is_empty() || input.is_empty(), "nothing came of `{input}`");
}

#[test]
fn arbitrary_tokens_give_code_or_an_error() {
    let now =
        || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |t| t.as_nanos() as u64 | 1);
    // `AMP_SEED` repeats a run that failed.
    let seed = std::env::var("AMP_SEED").map_or_else(|_| now(), |seed| seed.parse().expect("AMP_SEED is a number"));
    println!("seed {seed}");
    let mut random = Random(seed);
    for _ in 0..STREAMS {
        let (args, item) =
            (random.arguments(), if random.below(3) == 0 { random.stream(3, 24) } else { random.function() });
        let shown = format!("#[autocast({args})] {item}");
        let start = Instant::now();
        let tokens = item.clone();
        code_or_error(&item, &expand::autocast(args.clone(), tokens.clone()));
        code_or_error(&item, &amp_op::amp_op(args.clone(), tokens.clone()));
        // What a policy hands on: its rules, the arguments, the item or the body.
        let braced = |stream: &TokenStream| TokenTree::from(Group::new(Delimiter::Brace, stream.clone()));
        let rules: TokenStream = random.rules();
        let handed: TokenStream = [braced(&rules), braced(&args)].into_iter().chain(tokens.clone()).collect();
        let named: TokenStream =
            [TokenTree::from(Ident::new("careful", Span::call_site())), braced(&rules)].into_iter().collect();
        code_or_error(&named, &policy::amp_policy(named.clone()));
        let class = ["lower", "full", "widest", "keep"][random.below(4)].parse().expect("a class is a token");
        code_or_error(&item, &amp_op::amp_op(class, tokens.clone()));
        code_or_error(&handed, &expand::autocast_with(handed.clone()));
        code_or_error(&handed, &region::region_with(handed.clone()));
        let input: TokenStream = [
            args,
            ",".parse().expect("a comma"),
            TokenStream::from(TokenTree::from(Group::new(Delimiter::Brace, tokens))),
        ]
        .into_iter()
        .collect();
        code_or_error(&input, &region::amp_region(input.clone()));
        code_or_error(&input, &policy::amp_policy(input.clone()));
        assert!(start.elapsed() < PATIENCE, "took {:?}: {shown}", start.elapsed());
    }
}

#[test]
fn an_expansion_is_the_same_every_time() {
    let mut random = Random(0x5eed);
    for _ in 0..200 {
        let (args, item) = (random.arguments(), random.function());
        let expand = || expand::autocast(args.clone(), item.clone()).to_string();
        assert_eq!(expand(), expand());
    }
}
